#include "cli/fake_daemon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/unique_fd.h"

namespace carma::cli {

struct FakeDaemon::Loop {
  boost::asio::io_context context;
  std::unique_ptr<api::Server> server;
  std::thread thread;
};

FakeDaemon::FakeDaemon() : loop_(std::make_unique<Loop>()) {
  dir_ = ::testing::TempDir() + "/carma-cli-XXXXXX";
  EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  socket_path_ = dir_ + "/s.sock";
  auto server = api::Server::ListenUnix(loop_->context, socket_path_, 0600,
                                        [this](api::Request request, api::Responder respond) {
                                          Handle(std::move(request), std::move(respond));
                                        });
  EXPECT_TRUE(server) << server.error().message;
  loop_->server = std::move(*server);
  loop_->thread = std::thread([this] { loop_->context.run(); });
}

FakeDaemon::~FakeDaemon() {
  boost::asio::post(loop_->context, [this] { loop_->server.reset(); });
  loop_->thread.join();
  std::filesystem::remove_all(dir_);
}

void FakeDaemon::On(const std::string& method_and_path, Route route) {
  const std::lock_guard lock(mutex_);
  routes_[method_and_path] = std::move(route);
}

std::vector<std::string> FakeDaemon::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeDaemon::Handle(api::Request request, api::Responder respond) {
  std::string text = request.method + " " + request.path;
  Route route;
  {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(text);
    if (found != routes_.end()) route = found->second;
    char before = '?';
    for (const auto& [key, value] : request.query) {
      text += before + key + "=" + value;
      before = '&';
    }
    requests_.push_back(request.body.empty() ? text : text + " " + request.body);
  }
  if (!route) return respond(api::ErrorResponse({ErrorCode::kNotFound, "no " + request.path}));
  respond(route(request));
}

namespace {

// Uses a file as the program's standard input while this object exists.
class StandardInput {
 public:
  explicit StandardInput(const std::string& path)
      : before_(::dup(STDIN_FILENO)), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    ::dup2(file_.get(), STDIN_FILENO);
  }
  ~StandardInput() { ::dup2(before_.get(), STDIN_FILENO); }

 private:
  base::UniqueFd before_, file_;
};

}  // namespace

Ran RunWords(const std::string& socket_path, std::vector<std::string> words,
             const std::string& input, const Program& program) {
  std::optional<StandardInput> standard_input;
  if (!input.empty()) standard_input.emplace(input);
  words.insert(words.begin(), "carma");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  char* out = nullptr;
  char* err = nullptr;
  std::size_t out_size = 0;
  std::size_t err_size = 0;
  Ran ran;
  {
    Context context;
    context.version = "1.2.3";
    context.build = "of today";
    context.socket_path = socket_path;
    context.out = ::open_memstream(&out, &out_size);
    context.err = ::open_memstream(&err, &err_size);
    ran.exit_code = RunCarma(static_cast<int>(argv.size()), argv.data(), context, program);
    std::fclose(context.out);
    std::fclose(context.err);
  }
  ran.out.assign(out, out_size);
  ran.err.assign(err, err_size);
  std::free(out);
  std::free(err);
  return ran;
}

}  // namespace carma::cli
