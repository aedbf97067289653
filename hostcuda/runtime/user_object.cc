// SPDX-License-Identifier: Apache-2.0
#include "runtime/user_object.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/error.h"

namespace hostcuda::rt {

class UserObject {
 public:
  void* pointer;
  cudaHostFn_t destroy;
  std::uint64_t references;        // all of them
  std::uint64_t callers;           // those that no graph holds
};

namespace {

struct State {
  std::mutex lock;  // innermost: references also go away while executors finish launches
  std::unordered_map<UserObject*, std::unique_ptr<UserObject>> objects;
  std::condition_variable due_something;
  std::deque<std::unique_ptr<UserObject>> due;
  bool started = false;
};

State& state() {
  static auto* all = new State;  // never freed: its thread outlives static objects
  return *all;
}

void destroy_what_is_due() {
  t_state.helper = true;
  std::unique_lock<std::mutex> lock(state().lock);
  for (;;) {
    state().due_something.wait(lock, [] { return !state().due.empty(); });
    const std::unique_ptr<UserObject> object = std::move(state().due.front());
    state().due.pop_front();
    lock.unlock();
    object->destroy(object->pointer);
    lock.lock();
  }
}

// With the state's lock held.
void give_back(UserObject* object, std::uint64_t count) {
  object->references -= count;
  if (object->references != 0) return;
  const auto found = state().objects.find(object);
  state().due.push_back(std::move(found->second));
  state().objects.erase(found);
  if (!state().started) std::thread(destroy_what_is_due).detach();
  state().started = true;
  state().due_something.notify_one();
}

}  // namespace

UserObject* make_user_object(void* pointer, cudaHostFn_t destroy, unsigned references) {
  auto object = std::make_unique<UserObject>(UserObject{pointer, destroy, references, references});
  UserObject* made = object.get();
  std::lock_guard<std::mutex> guard(state().lock);
  state().objects[made] = std::move(object);
  return made;
}

UserObject* find_user_object(cudaUserObject_t handle) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = state().objects.find(reinterpret_cast<UserObject*>(handle));
  return found == state().objects.end() ? nullptr : found->first;
}

cudaUserObject_t handle_of(UserObject* object) { return reinterpret_cast<cudaUserObject_t>(object); }

void retain(UserObject* object, unsigned count) {
  std::lock_guard<std::mutex> guard(state().lock);
  object->references += count;
  object->callers += count;
}

bool release(UserObject* object, unsigned count) {
  std::lock_guard<std::mutex> guard(state().lock);
  if (object->callers < count) return false;
  object->callers -= count;
  give_back(object, count);
  return true;
}

UserReferences::UserReferences(const UserReferences& other) : held_(other.held_) {
  std::lock_guard<std::mutex> guard(state().lock);
  for (const auto& [object, count] : held_) object->references += count;
}

UserReferences::~UserReferences() {
  std::lock_guard<std::mutex> guard(state().lock);
  for (const auto& [object, count] : held_) give_back(object, count);
}

bool UserReferences::add(UserObject* object, unsigned count, bool moved) {
  std::lock_guard<std::mutex> guard(state().lock);
  if (moved) {
    if (object->callers < count) return false;
    object->callers -= count;
  } else {
    object->references += count;
  }
  held_[object] += count;
  return true;
}

bool UserReferences::remove(UserObject* object, unsigned count) {
  const auto found = held_.find(object);
  if (found == held_.end() || found->second < count) return false;
  found->second -= count;
  if (found->second == 0) held_.erase(found);
  std::lock_guard<std::mutex> guard(state().lock);
  give_back(object, count);
  return true;
}

}  // namespace hostcuda::rt
