// scontrol for scripts written for Slurm, inside a task: `scontrol requeue ID`, which frameworks
// call once they have saved.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/file.h"

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 2 || words[0] != "requeue") {
    std::fputs("scontrol (of CARMA): expected scontrol requeue ID\n", stderr);
    return 1;
  }
  // This program lies in libexec/carma.
  words.insert(words.begin(), carma::base::ExecutableDir() + "/../../bin/carma");
  std::vector<char*> call;
  for (std::string& word : words) call.push_back(word.data());
  call.push_back(nullptr);
  ::execv(call[0], call.data());
  std::perror("scontrol (of CARMA): carma");
  return 1;
}
