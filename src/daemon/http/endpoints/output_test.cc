#include "daemon/http/endpoints/handlers.h"

#include "base/file.h"
#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class OutputTest : public EndpointTest {
 protected:
  core::TaskId SubmitWriting(const std::string& text) {
    path_ = state_dir_ + "/out";
    EXPECT_TRUE(base::WriteFileAtomic(path_, text));
    // If the test runs as root, ada's privileges must suffice to enter the folder.
    std::filesystem::permissions(state_dir_, std::filesystem::perms(0755));
    task::TaskSpec spec = Spec();
    spec.stdout_path = path_;
    spec.held = true;
    return Submit(spec);
  }
  Heard Asked(const Caller& caller, core::TaskId id, Query query = {}) {
    Call call = By(caller, std::to_string(core::Number(id)));
    call.request.query = std::move(query);
    EngineServices services = Basics();
    services.read_file = [](auto, auto read, auto then) { then(read()); };
    return Ask(Shared(std::move(services)), &ShowOutput, call);
  }
  std::string path_;
};

TEST_F(OutputTest, ShowsTheEndOfTheOutputToTheOwner) {
  const core::TaskId id = SubmitWriting("one\ntwo\n");
  const Heard heard = Asked(kRoot, id, {{"bytes", "4"}});
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body, (base::Json{{"path", path_}, {"text", "two\n"}, {"from", 4}, {"size", 8}}));
  EXPECT_EQ(Asked(kRoot, id).body.at("text"), "one\ntwo\n");
}

TEST_F(OutputTest, RefusesOtherUsers) {
  const Heard heard = Asked(kEve, SubmitWriting("secret"));
  EXPECT_EQ(heard.status, 403);
  EXPECT_THAT(heard.Message(), HasSubstr("belongs to ada"));
}

TEST_F(OutputTest, ReportsThatPathIsNotAFile) {
  const core::TaskId id = SubmitWriting("x");
  EXPECT_EQ(Asked(kRoot, id, {{"stream", "stdin"}}).status, 400);
  EXPECT_EQ(Asked(kRoot, id, {{"bytes", "0"}}).status, 400);
  std::filesystem::remove(path_);
  EXPECT_EQ(Asked(kRoot, id).status, 404);
}

}  // namespace
}  // namespace carma::daemon
