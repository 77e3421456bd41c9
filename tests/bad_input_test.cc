// Tests invalid external input. Each case must print one clear line, exit with the documented code
// and lose no data.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::string_literals;
using Words = std::vector<std::string>;

// Expects a one-line error message that starts with the program's name.
void ExpectRefusal(const Ran& ran, int code, const std::vector<std::string>& pieces,
                   const std::string& what, const std::string& speaker = "carma: ") {
  EXPECT_FALSE(ran.late) << what;
  EXPECT_EQ(ran.code, code) << what << ": " << ran.Text();
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << what << ": " << ran.Text();
  EXPECT_TRUE(ran.err.starts_with(speaker)) << what << ": " << ran.Text();
  EXPECT_LT(ran.err.size(), 5000U) << what;
  for (const std::string& piece : pieces) EXPECT_THAT(ran.err, HasSubstr(piece)) << what;
}

// ---- submissions ----

class BadSubmission : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  void TearDown() override {
    EXPECT_TRUE(site.Status().task_counts.empty()) << "nothing was accepted";
    EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = site.out_dir() + "/" + name;
    WriteText(path, text, 0755);
    return name;
  }

  Site site;
};

TEST_F(BadSubmission, ImplausibleOptionsAreRefusedByName) {
  const struct {
    const char* what;
    Words options;
    std::vector<std::string> pieces;
  } kCases[] = {
      {"a GPU count beyond any integer", {"--gpus", "99999999999999999999"}, {"--gpus"}},
      {"a negative GPU count", {"--gpus", "-1"}, {"--gpus"}},
      {"negative memory", {"--gpu-mem", "-5G"}, {"--gpu-mem", "-5G"}},
      {"more memory than any machine has", {"--gpu-mem", "1e30G"}, {"--gpu-mem"}},
      {"a time limit of millennia", {"--time", "99999999d"}, {"--time"}},
      {"a priority beyond any integer", {"--priority", "99999999999999999999"}, {"--priority"}},
      {"a million retries", {"--retries", "1000000"}, {"--retries"}},
      {"an array of two million tasks", {"--array", "0-1999999"}, {"--array"}},
      {"a dependency on words", {"--dependency", "afterok:yesterday"}, {"--dependency"}},
      {"a word as the begin time", {"--begin", "someday"}, {"--begin"}},
      {"a name that is not UTF-8", {"--job-name", "\xff\xfe"}, {"name"}},
      {"a name of 100 KiB", {"--job-name", std::string(100 << 10, 'x')}, {"name"}},
      {"a path of 5000 letters", {"--chdir", std::string(5000, 'd')}, {}},
  };
  for (const auto& each : kCases) {
    Words args = {"submit"};
    args.insert(args.end(), each.options.begin(), each.options.end());
    args.insert(args.end(), {"--", "/bin/true"});
    ExpectRefusal(site.Carma(args), 2, each.pieces, each.what);
  }
}

TEST_F(BadSubmission, EmptyCommandLinesAreWrongUsage) {
  EXPECT_EQ(site.Carma({"submit"}).code, 2);
  EXPECT_EQ(site.Carma({"submit", "--frobnicate", "--", "/bin/true"}).code, 2);
  EXPECT_EQ(site.Carma({"frobnicate"}).code, 2);
  EXPECT_EQ(site.Carma({}).code, 2);
  EXPECT_EQ(site.Carma({"show", "nonsense"}).code, 2);
  EXPECT_EQ(site.Carma({"cancel"}).code, 2);
  EXPECT_EQ(site.Carma({"show", "4000000000"}).code, 1) << "no such task";
  EXPECT_EQ(site.Carma({"drain", "99"}).code, 1) << "no such GPU";
}

TEST_F(BadSubmission, ScriptsAreRefusedWithFileAndLine) {
  const struct {
    const char* what;
    std::string text;
    std::vector<std::string> pieces;
  } kCases[] = {
      {"an unknown directive",
       "#!/bin/sh\n#CARMA --frobnicate\ntrue\n",
       {"bad.sh:2", "frobnicate"}},
      {"a word as the GPU count", "#!/bin/sh\n\n#CARMA --gpus many\n", {"bad.sh:3", "gpus"}},
      {"an unclosed quote", "#!/bin/sh\n#CARMA --comment 'half\n", {"bad.sh:2"}},
      {"a name of 1 MiB", "#!/bin/sh\n#CARMA -J " + std::string(1 << 20, 'x') + "\n", {"bad.sh:2"}},
      {"a name that is not UTF-8", "#!/bin/sh\n#CARMA -J \xc3\x28\n", {"bad.sh:2", "UTF-8"}},
      {"no interpreter", "true\n", {"bad.sh:1"}},
      {"NUL bytes", "#!/bin/sh\ntrue\0\n"s, {"bad.sh"}},
      {"5 MiB", "#!/bin/sh\n" + std::string(5 << 20, '#'), {"bad.sh"}},
  };
  for (const auto& each : kCases)
    ExpectRefusal(site.Carma({"submit", Write("bad.sh", each.text)}), 2, each.pieces, each.what);
  ExpectRefusal(site.Carma({"submit", "missing.sh"}), 2, {"missing.sh"}, "a missing script");
}

TEST_F(BadSubmission, RadFilesAreRefusedWithFileAndLine) {
  const std::string whole =
      "comment\nconda activate tf\npython3 train.py\nmodel.txt\ncifar10\n128\nexclusive\n1\n"
      "9000\n9500\n9600\n16000\n";
  const struct {
    const char* what;
    std::string text;
  } kCases[] = {
      {"cut off after five lines", whole.substr(0, whole.find("128"))},
      {"a letter in a number", whole.substr(0, whole.find("9600")) + "96x0\n16000\n"},
      {"an absurd GPU count", "c\n-\npython3 a.py\nm\nd\n1\nexclusive\n99999999999\n1\n1\n1\n1\n"},
      {"a command for a shell", "command: python3 a.py; rm -rf /\n"},
      {"not UTF-8", "command: python3 \xff\xfe.py\n"},
      {"nothing", ""},
      {"NUL bytes", "command: \0\n"s},
  };
  for (const auto& each : kCases)
    ExpectRefusal(site.Carma({"submit", Write("bad.rad", each.text)}), 2, {"bad.rad"}, each.what);
  ExpectRefusal(site.Carma({"submit", "missing.rad"}), 2, {"missing.rad"}, "a missing file");
}

TEST_F(BadSubmission, TheDaemonChecksRequestsOfOtherClients) {
  const std::string spec = R"({"command":["/bin/true"],"workdir":"/tmp")";
  const auto quoted = [](const std::string& text) { return "\"" + text + "\""; };
  std::string two_million = "{\"spec\":" + spec + "},\"array\":[0";
  for (int i = 1; i < 2'000'000; ++i) two_million += "," + std::to_string(i);
  two_million += "]}";
  const struct {
    const char* what;
    std::string body;
    const char* piece;
  } kCases[] = {
      {"no JSON", "hello", "body"},
      {"no tasks", R"({"tasks":[]})", "0 tasks"},
      {"an unknown field", "{\"tasks\":[" + spec + ",\"colour\":\"red\"}]}", "/tasks/0/colour"},
      {"a name of 1 MiB",
       "{\"tasks\":[" + spec + ",\"name\":" + quoted(std::string(1 << 20, 'x')) + "}]}", "name"},
      {"a name that is not UTF-8", "{\"tasks\":[" + spec + ",\"name\":\"\xff\xfe\"}]}", "body"},
      {"two million tasks", two_million, "2000000"},
      {"a thousand levels", std::string(1000, '['), "body"},
      {"NUL in a command", R"({"tasks":[{"command":["/bin/\u0000true"],"workdir":"/tmp"}]})",
       "command"},
      {"a relative folder", R"({"tasks":[{"command":["true"],"workdir":"tmp"}]})", "workdir"},
      {"numbers beyond all", "{\"tasks\":[" + spec + ",\"gpus\":1e300}]}", "gpus"},
  };
  for (const auto& each : kCases) {
    const auto answer = site.client().Call("POST", "/v1/tasks", each.body);
    ASSERT_FALSE(answer) << each.what;
    EXPECT_EQ(answer.error().code, base::ErrorCode::kInvalid)
        << each.what << ": " << answer.error().message;
    EXPECT_THAT(answer.error().message, HasSubstr(each.piece)) << each.what;
    EXPECT_LT(answer.error().message.size(), 2000U) << each.what;
  }
}

TEST_F(BadSubmission, TwoMillionLinesOfABatchAreRefusedAsAWhole) {
  std::string lines;
  for (int i = 0; i < 2'000'000; ++i) lines += "true\n";
  WriteText(site.out_dir() + "/batch", lines);
  const Ran ran = site.Carma({"submit", "--batch", "batch", "--lines"}, {.deadline = kDeadline});
  ExpectRefusal(ran, 2, {"batch", "tasks"}, "two million lines");
}

TEST_F(BadSubmission, OneBadLineRefusesTheWholeBatch) {
  WriteText(site.out_dir() + "/batch",
            "{\"command\":[\"/bin/true\"]}\n{\"command\":[\"/bin/true\"],\"gpus\":-1}\n");
  ExpectRefusal(site.Carma({"submit", "--batch", "batch"}), 2, {"batch:2", "gpus"}, "bad line");
}

// ---- bytes on the socket ----

class Raw {
 public:
  explicit Raw(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ =
        ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool connected() const { return connected_; }
  // Returns false once the other end has closed the connection.
  bool Send(std::string_view data) const {
    while (!data.empty()) {
      const ssize_t n = ::send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  // Reads until the other end closes or sends nothing for ten seconds.
  std::string Receive() const {
    std::string text;
    char buffer[4096];
    while (WaitReadable(fd_.get(), std::chrono::seconds(10))) {
      const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
      if (text.find("\r\n\r\n") != text.npos && text.find('}') != text.npos) break;
    }
    return text;
  }

 private:
  base::UniqueFd fd_;
  bool connected_ = false;
};

TEST_F(BadSubmission, InvalidRequestBytesAreAnsweredOrDropped) {
  const struct {
    const char* what;
    std::string bytes;
    const char* status;  // expected status; empty if the connection may end in any way
  } kCases[] = {
      {"noise", "\x00\xff\x13\x37 GET\r\n\r\n"s, ""},
      {"another protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n", ""},
      {"a header of 1 MiB", "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n", ""},
      {"a body of 1 TB", "POST /v1/tasks HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n", "413"},
      {"no such endpoint", "GET /v2/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
      {"a path above the root", "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
      {"an invented method", "FETCH /v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n", "4"},
      {"a limit beyond any integer",
       "GET /v1/tasks?limit=99999999999999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
  };
  for (const auto& each : kCases) {
    const Raw raw(site.socket());
    ASSERT_TRUE(raw.connected());
    (void)raw.Send(each.bytes);
    const std::string answer = raw.Receive();
    if (*each.status != '\0') {
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::string(each.status)))
          << each.what << ": " << answer;
    }
    EXPECT_EQ(site.Status().pid, site.daemon().pid()) << each.what;
  }
}

TEST_F(BadSubmission, SilentConnectionsDoNotBlockOthers) {
  std::vector<Raw> silent;
  for (int i = 0; i < 200; ++i) {
    silent.emplace_back(site.socket());
    (void)silent.back().Send("POST /v1/tasks HTTP/1.1\r\nContent-Le");
  }
  EXPECT_EQ(site.Status().pid, site.daemon().pid());
}

// ---- configuration ----

TEST(BadConfiguration, IsRefusedWithFileAndLine) {
  const struct {
    const char* what;
    std::string text;
    std::vector<std::string> pieces;
  } kCases[] = {
      {"broken TOML", "[policy\nmapper = 1\n", {"carma.toml:1"}},
      {"an unknown key",
       "[policy]\n\nmaper = \"magm\"\n",
       {"carma.toml:3", "policy.maper", "mapper"}},
      {"a wrong type", "[policy]\nsm_cap = \"high\"\n", {"carma.toml:2", "policy.sm_cap"}},
      {"out of range", "[policy]\nsm_cap = 80\n", {"carma.toml:2", "policy.sm_cap"}},
      {"a span without a unit", "[monitor]\nwindow = 60\n", {"carma.toml:2", "monitor.window"}},
      {"keys that contradict each other",
       "[monitor]\nsample_period = \"30s\"\nwindow = \"5s\"\n",
       {"monitor.window"}},
      {"bytes that are not text", "\xff\xfe\n", {"carma.toml"}},
  };
  for (const auto& each : kCases) {
    Folder folder;
    WriteText(folder / "carma.toml", each.text);
    for (const Words& args : std::vector<Words>{{"--check-config"}, {}}) {
      Words argv = {Program("carmad"), "--config", folder / "carma.toml"};
      argv.insert(argv.end(), args.begin(), args.end());
      ExpectRefusal(RunProgram(argv), 2, each.pieces, each.what, "carmad: ");
    }
  }
  ExpectRefusal(RunProgram({Program("carmad"), "--config", "/no/such/carma.toml"}), 2,
                {"/no/such/carma.toml"}, "a missing file", "carmad: ");
  Folder folder;
  WriteText(folder / "carma.toml", "[estimate]\nprofiles = \"/no/such/profiles.csv\"\n");
  const Words check = {Program("carmad"), "--config", folder / "carma.toml", "--check-config"};
  ExpectRefusal(RunProgram(check), 2, {"estimate.profiles: ", "/no/such/profiles.csv"},
                "missing profiles", "carmad: ");
}

TEST(BadConfiguration, UnknownUsersAndGroupsAreOnlyAWarning) {
  Folder folder;
  WriteText(folder / "carma.toml",
            "[daemon]\nallow_users = [\"adaa\"]\nallow_groups = [\"nogroup_x\"]\n");
  const Ran ran =
      RunProgram({Program("carmad"), "--config", folder / "carma.toml", "--check-config"});
  EXPECT_TRUE(ran.Ok()) << ran.Text();
  EXPECT_THAT(ran.err, HasSubstr("carma.toml:2: daemon.allow_users: no user 'adaa'"));
  EXPECT_THAT(ran.err, HasSubstr("carma.toml:3: daemon.allow_groups: no group 'nogroup_x'"));
}

// ---- a store that CARMA must not touch ----

class BadStore : public ::testing::Test {
 protected:
  void SetUp() override {
    site.Start();
    site.Await(site.Submit({"--", "/bin/true"}));
    const Ran stopped = site.Stop(SIGTERM);
    ASSERT_EQ(stopped.code, 0) << stopped.Text();
  }
  // The contents of every file in the state folder except the lock, which a daemon takes before it
  // reads any other file.
  std::map<std::string, std::string> Bytes() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(site.state_dir())) {
      if (entry.is_regular_file() && entry.path().filename() != "lock")
        files[entry.path().string()] = ReadText(entry.path().string());
    }
    return files;
  }
  void Patch(std::int64_t offset, std::string_view bytes) const {
    const std::string path = site.state_dir() + "/carma.db";
    const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), offset),
              static_cast<ssize_t>(bytes.size()));
  }
  void ExpectRefusedUntouched(const std::vector<std::string>& pieces, const std::string& what) {
    const std::map<std::string, std::string> before = Bytes();
    ExpectRefusal(RunProgram({Program("carmad"), "--config", site.config_file()}), 1, pieces, what,
                  "carmad: ");
    EXPECT_EQ(Bytes(), before) << what;
  }

  Site site;
};

TEST_F(BadStore, RefusesANewerVersion) {
  Patch(60, {"\0\0\3\xe7", 4});  // user_version in SQLite's header
  ExpectRefusedUntouched({"carma.db", "999"}, "newer");
}

TEST_F(BadStore, RefusesAnotherApplication) {
  Patch(68, {"\1\2\3\4", 4});  // application_id
  ExpectRefusedUntouched({"carma.db"}, "another application's");
}

TEST_F(BadStore, RefusesAFileThatIsNotADatabase) {
  WriteText(site.state_dir() + "/carma.db", "these are my holiday pictures\n", 0600);
  ExpectRefusedUntouched({"carma.db"}, "no database");
}

TEST_F(BadStore, RefusesDamagedPages) {
  const std::string path = site.state_dir() + "/carma.db";
  const std::size_t size = ReadText(path).size();
  ASSERT_GT(size, 8192U);
  Patch(4096, std::string(size - 4096, '\x5a'));
  ExpectRefusedUntouched({"carma.db"}, "damaged");
}

TEST_F(BadStore, RefusesATruncatedFile) {
  const std::string path = site.state_dir() + "/carma.db";
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(ReadText(path).size() / 2)), 0);
  ExpectRefusedUntouched({"carma.db"}, "cut short");
}

TEST_F(BadStore, RefusesAnotherUser) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chown(site.state_dir().c_str(), OtherUser(), OtherUser()), 0);
  ExpectRefusedUntouched({site.state_dir()}, "another user's");
}

// ---- a socket of another user ----

TEST(ForeignSocket, IsRefusedByTheCommandAndByTheDaemon) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  Site site;
  const base::UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  site.socket().copy(address.sun_path, sizeof address.sun_path - 1);
  // A client sees the credentials that the listener had when it called listen(). Here, they belong
  // to another user.
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::chown(site.socket().c_str(), OtherUser(), OtherUser()), 0);
  ASSERT_EQ(::chmod(site.socket().c_str(), 0666), 0);
  ASSERT_EQ(::seteuid(OtherUser()), 0);
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  ASSERT_EQ(::seteuid(0), 0);
  ExpectRefusal(site.Carma({"submit", "--", "/bin/true"}), 1, {site.socket(), "65534"}, "command");
  ExpectRefusal(RunProgram({Program("carmad"), "--config", site.config_file()}), 1, {site.socket()},
                "daemon", "carmad: ");
}

// ---- a full disk ----

class FullDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    // Mounts a small disk in this test program's own mount namespace.
    const bool mounts = IsRoot() && ::unshare(CLONE_NEWNS) == 0 &&
                        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!mounts) GTEST_SKIP() << "needs permission to mount";
    ASSERT_TRUE(base::MakeDirs(site.state_dir(), 0700));
    if (::mount("carma-test", site.state_dir().c_str(), "tmpfs", 0, "size=3m,mode=0700") != 0)
      GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
    mounted_ = true;
    site.Start();
  }
  void TearDown() override {
    if (!mounted_) return;
    site.CancelAll();
    site.Stop(SIGTERM);
    ::umount2(site.state_dir().c_str(), MNT_DETACH);
  }
  std::string ballast() const { return site.state_dir() + "/ballast"; }
  void Fill() const {
    const base::UniqueFd fd(
        ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const std::string page(4096, 'x');
    while (::write(fd.get(), page.data(), page.size()) > 0) {
    }
  }
  void MakeSpace() const { ::unlink(ballast().c_str()); }

  Site site;
  bool mounted_ = false;
};

TEST_F(FullDisk, SubmissionsAreRefusedAndWorkContinuesAfterwards) {
  Gated first(site, "first"), second(site, "second");
  const std::uint64_t ends_meanwhile = first.Submit(site, "echo done; exit 3");
  const std::uint64_t stays = second.Submit(site, "exit 0");
  ASSERT_EQ(first.Hear(), "1");
  ASSERT_EQ(second.Hear(), "1");
  const Watched process(static_cast<pid_t>(*site.AwaitState(ends_meanwhile, "running").pid));
  site.AwaitState(stays, "running");
  const std::uint64_t waits = site.Submit(
      {"--dependency", "afternotok:" + std::to_string(ends_meanwhile), "--", "/bin/true"});

  Fill();
  Ran refused;
  // Submissions are accepted until the free space in the database files is used up.
  int accepted = 0;
  EXPECT_TRUE(Eventually([&] {
    refused = site.Carma({"submit", "--hold", "--", "/bin/true"});
    accepted += refused.Ok() ? 1 : 0;
    return !refused.Ok();
  }));
  ExpectRefusal(refused, 1, {"nothing was accepted", "full"}, "full disk");
  EXPECT_THAT(site.Carma({"status"}).out, AllOf(HasSubstr("store"), HasSubstr("full")));
  EXPECT_EQ(site.Task(stays).state, "running");

  // One of the two tasks ends while the disk is still full.
  first.Open();
  ASSERT_TRUE(process.Ends());
  MakeSpace();
  second.Open();
  EXPECT_EQ(site.Await(ends_meanwhile).exit_code, 3);
  EXPECT_EQ(site.Await(stays).state, "succeeded");
  EXPECT_EQ(site.Await(waits).state, "succeeded");
  EXPECT_EQ(site.Output(ends_meanwhile), "done\n");
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  const auto all = cli::ListTasks(site.client(), {.states = "all", .user = "", .name = ""});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->tasks.size(), 4U + static_cast<std::size_t>(accepted));
}

TEST(LimitedFiles, AFullQuotaRefusesSubmissionsAndLosesNothing) {
  Site site;
  constexpr rlim_t kMaxFile = 400'000;
  site.Start(true, {.max_file_bytes = kMaxFile});
  std::vector<std::uint64_t> accepted;
  Ran refused;
  EXPECT_TRUE(Eventually([&] {
    refused = site.Carma(
        {"submit", "--json", "--hold", "--comment", std::string(4000, 'c'), "--", "/bin/true"});
    if (refused.Ok()) accepted.push_back(accepted.size() + 1);
    return !refused.Ok();
  }));
  ExpectRefusal(refused, 1, {"nothing was accepted"}, "limited files");
  ASSERT_FALSE(accepted.empty());
  site.Stop(SIGTERM);
  site.Start();
  for (const std::uint64_t id : accepted) site.ExpectWaits(id, "Held");
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
}

TEST(LimitedFiles, AMachineWithoutDescriptorsCostsNoTaskARetry) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer opens descriptors itself to check an object";
#endif
  constexpr int kTasks = 60;
  Site site({.settings = {{"policy.settle", "false"}, {"policy.sm_cap", "false"}}});
  const std::string programs = site.folder() / "programs", ran = site.out_dir() + "/ran";
  std::filesystem::create_directory(programs);
  WriteText(programs + "/carmad",
            fmt::format("#!/bin/sh\nulimit -n 64\nexec {} \"$@\"\n", Program("carmad")), 0755);
  site.UsePrograms(programs);
  site.Start();
  // Each task occupies descriptors of carmad until it has read a line from the gate.
  const std::string gate = site.folder() / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  const base::UniqueFd lines(::open(gate.c_str(), O_RDWR | O_CLOEXEC));
  const std::uint64_t first =
      site.Submit({"--array", fmt::format("0-{}", kTasks - 1), "--gpu-mem", "100M", "--", "/bin/sh",
                   "-c", fmt::format("echo $CARMA_TASK_ID >> {}; read line < {}", ran, gate)});
  EXPECT_TRUE(Eventually([&] {
    return site.daemon().Err().find("launch_failed") != std::string::npos;
  })) << "nothing is tested";
  ASSERT_TRUE(base::WriteAll(lines.get(), std::string(kTasks, '\n')));
  std::vector<std::uint64_t> ids(kTasks);
  std::iota(ids.begin(), ids.end(), first);
  for (const std::uint64_t id : ids)
    EXPECT_EQ(site.Await(id).state, "succeeded") << site.Task(id).reason_text;
  std::multiset<std::string> marks;
  const std::string text = ReadText(ran);
  for (const std::string_view line : base::Split(base::Trim(text), '\n')) marks.emplace(line);
  for (const std::uint64_t id : ids) EXPECT_EQ(marks.count(fmt::format("{}", id)), 1U) << id;
  site.UsePrograms(base::ExecutableDir());
}

}  // namespace
}  // namespace carma::system_test
