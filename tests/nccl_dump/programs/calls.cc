/* SPDX-License-Identifier: Apache-2.0 */
/* Random collectives on whichever libnccl.so.2 the loader finds. One line a call and rank goes to the results: the call
 * and a hash of what it received. */
#include "draw.h"
#include "issue.h"
#include "ranks.h"
#include "rules.h"

#include <cstring>
#include <fstream>

namespace {

struct Options {
  uint64_t seed = 0;
  int calls = 100, processes = 2, devices = 1, streams = 3;
  size_t mostBytes = 1 << 20;
  std::vector<std::string> hosts; /* by process; empty: one host, under its own name */
  std::string functions, results, dump;
  bool dry = false;   /* the library launches nothing, so there are no data */
  bool rules = false; /* where the library is patched: rules that set nothing, and rules that are gone again */
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
    if (i + 1 == argc) {
      fprintf(stderr, "calls: %s needs a value\n", argv[i]);
      exit(6);
    }
    const char* value = argv[i + 1];
    if (name == "--seed") o.seed = strtoull(value, nullptr, 10);
    else if (name == "--calls") o.calls = atoi(value);
    else if (name == "--processes") o.processes = atoi(value);
    else if (name == "--devices") o.devices = atoi(value);
    else if (name == "--most-bytes") o.mostBytes = strtoull(value, nullptr, 10);
    else if (name == "--functions") o.functions = value;
    else if (name == "--results") o.results = value;
    else if (name == "--dump") o.dump = value;
    else if (name == "--dry") o.dry = atoi(value) != 0;
    else if (name == "--rules") o.rules = atoi(value) != 0;
    else if (name == "--hosts") {
      for (const char* host = strtok(argv[i + 1], ","); host != nullptr; host = strtok(nullptr, ",")) {
        o.hosts.push_back(host);
      }
    } else {
      fprintf(stderr, "calls: unknown option %s\n", argv[i]);
      exit(6);
    }
  }
  return o;
}

int runProcess(Options const& o, Job& job, int process) {
  alarm(1200); /* a hang ends here, whoever started this */
  if (!o.hosts.empty()) setenv("NCCL_HOSTID", o.hosts[process].c_str(), 1);
  if (!o.dump.empty()) setenv("NCCL_DUMP_FILE", (o.dump + "." + std::to_string(process)).c_str(), 1);
  if (o.dry) setenv("NCCL_DUMP_DRY", "1", 1);
  std::vector<Reduction> reductions;
  std::ifstream list(o.functions);
  for (std::string words; std::getline(list, words);) addReductions(words, &reductions);

  Random random(o.seed);
  int nRanks = o.processes * o.devices;
  Issuer issuer(job, process, o.processes, o.devices, o.streams, o.mostBytes, random, o.dry);
  if (o.rules) {
    int way = 0;
    for (std::vector<ncclComm_t> const& members : issuer.communicators()) setIdleRules(members, way++ % 3);
  }
  Limits limits = {o.mostBytes, nRanks, issuer.nComms(), o.streams};
  FILE* results = fopen((o.results + "." + std::to_string(process)).c_str(), "w");
  if (results == nullptr) {
    perror(o.results.c_str());
    return 1;
  }
  for (int done = 0; done < o.calls;) {
    /* Several launches in flight, then a look at what came out. */
    for (int steps = 1 + (int)random.below(6); steps > 0 && done < o.calls; steps--) {
      int n = random.percent(60) ? 1 : 2 + (int)random.below(5);
      bool many = random.percent(4); /* more work than the kernel's arguments have room for */
      if (many) n = 30 + (int)random.below(40);
      std::vector<Call> calls;
      bool alike = random.percent(40); /* what NCCL may schedule as one */
      for (; n > 0 && done < o.calls; n--, done++) {
        Call call = drawCall(random, reductions, limits);
        if (many) call.count %= 512;
        if (many && !calls.empty()) call.comm = calls[0].comm;
        calls.push_back(alike && !calls.empty() ? anotherOf(calls[0], call) : call);
      }
      issuer.issue(calls, results);
    }
    issuer.finish(results);
  }
  fclose(results);
  issuer.destroy();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o = parse(argc, argv);
  Job job(o.processes);
  int status = job.run([&](int process) { return runProcess(o, job, process); });
  if (status != 0) fprintf(stderr, "calls: a process ended with status %d\n", status);
  return status;
}
