#include "task/describe/script_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace carma::task {
namespace {

std::string Warned(std::string_view script, bool slurm = true) {
  return base::Join(BodyWarnings(script, "job.sh", slurm), "; ");
}

TEST(BodyWarnings, WarnsAboutCommandsThatWouldFail) {
  const std::pair<const char*, const char*> kCases[] = {
      {"#!/bin/bash\nleft=$(squeue -h -j 1)\n", "job.sh:2: CARMA has no squeue"},
      {"#!/bin/bash\nsrun -N 2 x\n", "job.sh:2: srun on 2 nodes fails: this is a single server"},
      {"#!/bin/bash\nsrun \\\n  --multi-prog x\n",
       "job.sh:2: CARMA's srun does not accept --multi-prog"},
      {"#!/bin/bash\ntrue && scontrol show node n1\n",
       "job.sh:2: 'scontrol show node' fails in CARMA"},
      {"#!/bin/bash\nscontrol requeue 1\n",
       "job.sh:2: in CARMA, a requeued task keeps its output file"},
      {"#!/bin/bash\nscontrol requeuehold 1\n", "job.sh:2: 'scontrol requeuehold' fails in CARMA"},
      {"#!/bin/bash\nsrun -l x\n", "job.sh:2: CARMA's srun does not label lines"},
      {"#!/bin/bash\nsrun -o %s x\n", "job.sh:2: in CARMA, '%s' is the same for every srun"},
      {"#!/bin/bash\nsbatch -d singleton $0\n",
       "job.sh:2: CARMA's sbatch does not accept --dependency=sing"},
      {"#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1\n", "job.sh:2: sets CUDA_VISIBLE_DEVICES"},
      {"#!/bin/bash\nCUDA_VISIBLE_DEVICES=1 python a.py\n", "job.sh:2: sets CUDA_VISIBLE_DEVICES"},
  };
  for (const auto& [script, expected] : kCases)
    EXPECT_THAT(Warned(script), ::testing::StartsWith(expected)) << script;
}

TEST(BodyWarnings, WarnsAboutScriptsThatLookForTheirOwnFolder) {
  EXPECT_EQ(Warned("#!/bin/bash\ncd \"$(dirname \"$0\")\"\n"),
            "job.sh:2: $0 is a copy of the script in another folder; use $PWD, the working "
            "directory");
  EXPECT_NE(Warned("#!/bin/bash\ncd $(dirname \"${BASH_SOURCE[0]}\")\n"), "");
  EXPECT_EQ(Warned("#!/bin/bash\ncd $(dirname \"$1\")\n"), "");
}

TEST(BodyWarnings, IgnoresSupportedCommands) {
  for (const char* script : {"#!/bin/bash\nexport MASTER_ADDR=$(scontrol show hostnames "
                             "$SLURM_JOB_NODELIST | head -n1)\n",
                             "#!/bin/bash\nsrun -n 4 --cpu-bind=none python squeue.py -N 8\n",
                             "#!/bin/bash\n#SBATCH --open-mode=append\ntrap 'scontrol requeue "
                             "$SLURM_JOB_ID' USR1\nsbatch $0\n",
                             "#!/bin/bash\necho use squeue to look  # squeue\n",
                             "#!/bin/bash\necho $CUDA_VISIBLE_DEVICES\n"})
    EXPECT_EQ(Warned(script), "") << script;
  EXPECT_EQ(Warned("#!/bin/bash\nsqueue\n", false), "") << "not written for Slurm";
}

TEST(BodyWarnings, WarnsOnceEachAndNotTooOften) {
  std::string script = "#!/bin/bash\n";
  for (int i = 0; i < 100; ++i) script += "squeue\nsrun --odd" + std::to_string(i) + " x\n";
  EXPECT_EQ(BodyWarnings(script, "job.sh", true).size(), 8U);
}

}  // namespace
}  // namespace carma::task
