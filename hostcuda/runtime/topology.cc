// SPDX-License-Identifier: Apache-2.0
#include "runtime/topology.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/text_file.h"

namespace hostcuda::rt {
namespace {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
};

// As much of XML as topology files use: elements with attributes in double quotes, comments, declarations.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), text_(read_text(path)) {}

  std::vector<TopologyGpu> gpus() {
    while (skip_to_tag()) {
      if (text_.compare(at_, 4, "<!--") == 0) {
        skip_past("-->");
      } else if (text_.compare(at_, 2, "<?") == 0) {
        skip_past("?>");
      } else if (text_.compare(at_, 2, "</") == 0) {
        close();
      } else {
        open();
      }
    }
    if (!stack_.empty()) refuse("<" + stack_.back().name + "> is not closed");
    if (!has_system_) throw TopologyError(path_ + ": no <system>: this is no topology file");
    return std::move(gpus_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + std::min(at_, text_.size()), '\n');
    throw TopologyError(path_ + ":" + std::to_string(line) + ": " + what);
  }

  bool skip_to_tag() {
    at_ = text_.find('<', at_);
    return at_ != std::string::npos;
  }

  void skip_past(const char* end) {
    const auto found = text_.find(end, at_);
    if (found == std::string::npos) refuse(std::string("no '") + end + "' follows");
    at_ = found + std::strlen(end);
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  std::string word() {
    const auto start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (at_ == start) refuse("a name was expected");
    return text_.substr(start, at_ - start);
  }

  void close() {
    at_ += 2;
    const std::string name = word();
    if (stack_.empty() || stack_.back().name != name) refuse("</" + name + "> closes nothing");
    stack_.pop_back();
    skip_past(">");
  }

  void open() {
    ++at_;
    Element element{word(), {}};
    for (;;) {
      skip_blanks();
      if (at_ >= text_.size()) refuse("<" + element.name + "> is cut short");
      if (text_[at_] == '>' || text_[at_] == '/') break;
      const std::string key = word();
      if (text_.compare(at_, 2, "=\"") != 0) refuse("attribute " + in_quotes(key) + " has no value in double quotes");
      at_ += 2;
      const auto end = text_.find('"', at_);
      if (end == std::string::npos) refuse("attribute " + in_quotes(key) + " is not closed");
      element.attributes[key] = text_.substr(at_, end - at_);
      at_ = end + 1;
    }
    meet(element);
    if (text_[at_] == '/') {
      skip_past(">");
    } else {
      ++at_;
      stack_.push_back(std::move(element));
    }
  }

  // A GPU is a PCI device of class 03, or one whose class is not told but that has nothing below it, as in files that
  // list bus ids alone.
  void meet(const Element& element) {
    if (element.name == "system") {
      has_system_ = true;
    } else if (element.name == "cpu") {
      const std::string numa = attribute(element, "numaid");
      numa_node_ = static_cast<unsigned>(std::strtoul(numa.c_str(), nullptr, 10)) % 64;
    } else if (element.name == "pci") {
      const std::string kind = attribute(element, "class");
      const bool leaf = at_ < text_.size() && text_[at_] == '/';
      if (kind.rfind("0x03", 0) == 0 || (kind.empty() && leaf)) {
        TopologyGpu gpu;
        gpu.bus_id = lower(attribute(element, "busid"));
        if (!is_bus_id(gpu.bus_id)) refuse("a GPU's busid must look like 0000:00:00.0, not " + in_quotes(gpu.bus_id));
        for (const TopologyGpu& other : gpus_) {
          if (other.bus_id == gpu.bus_id) refuse("two GPUs have the busid " + gpu.bus_id);
        }
        gpu.numa_node = numa_node_;
        gpus_.push_back(std::move(gpu));
      }
    } else if (element.name == "nvlink") {
      if (gpus_.empty()) refuse("<nvlink> stands outside of a GPU");
      NvLink link;
      link.target = lower(attribute(element, "target"));
      const std::string count = attribute(element, "count");
      if (count.empty() || !std::all_of(count.begin(), count.end(), [](unsigned char c) { return std::isdigit(c); }) ||
          count.size() > 3) {
        refuse("<nvlink> needs a count, not " + in_quotes(count));
      }
      link.count = static_cast<unsigned>(std::stoul(count));
      link.to_switch = attribute(element, "tclass").rfind("0x03", 0) != 0;
      gpus_.back().nvlinks.push_back(std::move(link));
    }
  }

  static bool is_bus_id(const std::string& text) {
    const std::string shape = "xxxx:xx:xx.x";
    if (text.size() != shape.size()) return false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool fits = shape[i] == 'x' ? std::isxdigit(static_cast<unsigned char>(text[i])) != 0 : text[i] == shape[i];
      if (!fits) return false;
    }
    return true;
  }

  static std::string attribute(const Element& element, const char* key) {
    const auto found = element.attributes.find(key);
    return found == element.attributes.end() ? "" : found->second;
  }

  static std::string lower(std::string s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
    return s;
  }

  std::string path_, text_;
  std::size_t at_ = 0;
  std::vector<Element> stack_;
  std::vector<TopologyGpu> gpus_;
  unsigned numa_node_ = 0;
  bool has_system_ = false;
};

}  // namespace

std::vector<TopologyGpu> read_topology(const std::string& path) { return Reader(path).gpus(); }

}  // namespace hostcuda::rt
