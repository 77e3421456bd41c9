// Starts NVIDIA's control program for carmad: a short-lived, single-threaded carma-shim creates the
// folders, switches to the user and executes the program. All MPS code that runs as root is in this
// file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "task/mps/mps.h"

namespace carma::task {

struct MpsOrder {
  std::string dir;  // value of collocation.mps_dir
  MpsServerId id;
  std::map<std::string, std::string> environment;  // extra variables from carmad
  std::vector<std::string> argv;                   // argv[0]: absolute path
};

// The arguments after "carma-shim --mps".
std::vector<std::string> ToArguments(const MpsOrder& order);
// Returns kInvalid if the arguments are malformed.
Result<MpsOrder> ParseMpsArguments(const std::vector<std::string>& arguments);

// 1. Creates <dir>/<owner> (owned by the user, mode 0700; 0711 for a shared server).
// 2. With the user's privileges, creates its subfolders without following links and, for "-d", sets
//    aside the previous daemon's logs.
// 3. Executes the program in its own session with the server's user and groups, no new privileges
//    and default signals. Its environment has only HOME, USER, LOGNAME, PATH (the program's folder
//    first), the MPS folders, the GPU and the order's extra variables.
// May block on the user database. Returns only on failure, with a line on stderr.
int RunMpsChild(const std::vector<std::string>& arguments);

inline constexpr int kMpsChildFailed = 3;

}  // namespace carma::task
