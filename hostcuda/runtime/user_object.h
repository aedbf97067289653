// SPDX-License-Identifier: Apache-2.0
// Objects of the program that live as long as graphs refer to them. A thread of ours calls their destructors, because
// whoever gives the last reference back may hold locks of the program or of the runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <map>

namespace hostcuda::rt {

class UserObject;

// With the lock held, all of these; nullptr for a handle that is none.
UserObject* make_user_object(void* pointer, cudaHostFn_t destroy, unsigned references);
UserObject* find_user_object(cudaUserObject_t handle);
cudaUserObject_t handle_of(UserObject* object);
void retain(UserObject* object, unsigned count);
// False where the caller has fewer references than that; then nothing is given back.
bool release(UserObject* object, unsigned count);

// The references that one graph, or one executable graph, holds.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences& other);
  UserReferences& operator=(const UserReferences&) = delete;
  ~UserReferences();

  // `moved`: references of the caller's become ours, false where it has fewer; else new ones are made.
  bool add(UserObject* object, unsigned count, bool moved);
  bool remove(UserObject* object, unsigned count);

 private:
  std::map<UserObject*, unsigned> held_;
};

}  // namespace hostcuda::rt
