// Internals of the store, shared by store.cc (opening, writing) and reads.cc.
#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/delta.h"
#include "store/lock.h"
#include "store/open.h"
#include "store/rows.h"
#include "store/sql.h"
#include "store/store.h"
#include "store/tables.h"

namespace carma::store {

// Borrows a cached statement and resets it on destruction. Without the reset, its read transaction
// would stay open and block checkpoints of the log.
class Use {
 public:
  explicit Use(SQLite::Statement& statement) : statement_(statement) {}
  ~Use() { statement_.tryReset(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  SQLite::Statement& operator*() const { return statement_; }
  SQLite::Statement* operator->() const { return &statement_; }

 private:
  SQLite::Statement& statement_;
};

// The value of column description.spec, and the template if the value is a difference from one.
struct PackedSpec {
  std::optional<std::int64_t> template_id;
  std::string text;
};

struct Store::Impl {
  enum class Transaction {
    kNone,
    kOpen,
    kFailed,  // rolled back after an error; waits for Commit or Rollback
  };

  explicit Impl(StateLock held) : lock(std::move(held)) {}
  ~Impl() {
    statements.clear();
    if (!db) return;
    // Moves the log into the database, so that a closed store is a single file. If this fails, for
    // example because the disk is full, the log stays and nothing is lost.
    db->tryExec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  SQLite::Statement& Prepared(const std::string& sql) {
    std::unique_ptr<SQLite::Statement>& statement = statements[sql];
    if (!statement) statement = std::make_unique<SQLite::Statement>(*db, sql);
    return *statement;
  }

  // Returns the number of changed rows.
  template <class... Values>
  int Run(const std::string& sql, const Values&... values) {
    const Use statement(Prepared(sql));
    Binder bind(*statement);
    (bind.Bind(values), ...);
    return statement->exec();
  }
  // Runs a statement with the columns of a row as its parameters.
  template <class Visitor = Binder, class Row>
  void Put(const std::string& sql, const Row& row) {
    const Use statement(Prepared(sql));
    Visitor bind(*statement);
    Table<Row>::Visit(bind, row);
    statement->exec();
  }

  // Runs a query and fills each row with `read`. what: the name of the rows in error messages.
  template <class Row, class ReadRow, class... Values>
  Result<std::vector<Row>> Rows(std::string_view what, const std::string& sql, ReadRow read,
                                const Values&... values) {
    return Read("reading " + std::string(what), [&]() -> Result<std::vector<Row>> {
      const Use statement(Prepared(sql));
      Binder bind(*statement);
      (bind.Bind(values), ...);
      std::vector<Row> rows;
      while (statement->executeStep()) {
        Reader reader(*statement);
        read(reader, rows.emplace_back());
        if (reader.problem()) return Fail(ErrorCode::kCorrupt, "{}: {}", what, *reader.problem());
      }
      return rows;
    });
  }
  // Reads rows with all their columns. rest: the part of the query after the table's name.
  template <class Row, class... Values>
  Result<std::vector<Row>> All(std::string_view what, const std::string& rest,
                               const Values&... values) {
    const auto read = [](Reader& reader, Row& row) { Table<Row>::Visit(reader, row); };
    return Rows<Row>(what, SelectSql<Row>() + rest, read, values...);
  }

  void UndoBatch() {
    if (sqlite3_get_autocommit(db->getHandle()) == 0) db->tryExec("ROLLBACK");
    last_task = durable_task;
    last_event = durable_event;
    templates.clear();  // a template added by this batch is gone
  }

  // Stores a description as its difference from the user's template. If the description differs too
  // much, it becomes the new template.
  PackedSpec Pack(const std::string& user, const std::string& spec) {
    constexpr std::size_t kWorthIt = 256;
    constexpr std::size_t kMostUsers = 64;  // each has one template in memory
    if (spec.size() < kWorthIt) return {std::nullopt, spec};
    const auto known = templates.find(user);
    if (known != templates.end()) {
      std::string difference = known->second.base.Difference(spec);
      if (difference.size() <= spec.size() / 2) return {known->second.id, std::move(difference)};
      templates.erase(known);
    }
    if (templates.size() >= kMostUsers) templates.clear();
    Run("INSERT INTO template(text) VALUES(?)", spec);
    const Known& added = templates.try_emplace(user, db->getLastInsertRowid(), spec).first->second;
    return {added.id, added.base.Difference(spec)};
  }

  // Forgets the templates that are no longer in the database. It keeps the others, because
  // otherwise every user's next description would become a new template.
  void ForgetLostTemplates() {
    std::erase_if(templates, [this](const auto& each) {
      const Use found(Prepared("SELECT 1 FROM template WHERE id=?"));
      found->bind(1, each.second.id);
      return !found->executeStep();
    });
  }

  // Runs one step of the open batch. If SQLite fails, the whole batch is rolled back.
  template <class Body>
  auto Change(std::string_view doing, Body body) -> decltype(body()) {
    CARMA_CHECK(batch != Transaction::kNone, "the store was changed outside a batch");
    if (batch == Transaction::kFailed)
      return Fail(ErrorCode::kIo,
                  std::string(doing) + ": the batch was rolled back after an earlier error");
    try {
      return body();
    } catch (const SQLite::Exception& exception) {
      base::Error error = FromSqlite(exception, doing);
      UndoBatch();
      batch = Transaction::kFailed;
      return std::unexpected(std::move(error));
    }
  }

  // Like Change(), for a body that returns nothing and can fail only with an SQLite exception.
  template <class Body>
  Result<Unit> Do(std::string_view doing, Body body) {
    return Change(doing, [&]() -> Result<Unit> {
      body();
      return Unit{};
    });
  }

  template <class Body>
  auto Read(std::string_view doing, Body body) -> decltype(body()) {
    try {
      return body();
    } catch (const SQLite::Exception& exception) {
      return std::unexpected(FromSqlite(exception, doing));
    }
  }

  // Must be called between transactions, because SQLite rejects the change inside one.
  void SetDurability(Durability wanted) {
    if (wanted == durability) return;
    db->exec(wanted == Durability::kNow ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    durability = wanted;
  }

  std::int64_t Counter(const char* name) {
    const Use get(Prepared("SELECT value FROM counter WHERE name=?"));
    get->bind(1, name);
    if (!get->executeStep()) throw SQLite::Exception("counter is missing", SQLITE_CORRUPT);
    return get->getColumn(0).getInt64();
  }
  void PutCounter(const std::string& name, std::int64_t value) {
    Run("UPDATE counter SET value=? WHERE name=?", value, name);
  }
  void LoadCounters() {
    last_task = durable_task = Counter("task");
    last_event = durable_event = Counter("event");
  }
  // Reads the database's id. A new database or a restored copy gets its id here.
  void LoadBooks() {
    db->exec("UPDATE books SET id=lower(hex(randomblob(16))) WHERE id IS NULL");
    const Use rows(Prepared("SELECT from_task,id,named FROM books"));
    while (rows->executeStep()) {
      books[rows->getColumn(0).getInt64()] = {rows->getColumn(1).getString(),
                                              rows->getColumn(2).getInt() != 0};
    }
    if (books.empty()) throw SQLite::Exception("table books is empty", SQLITE_CORRUPT);
  }
  // Called once per batch, so numbering adds no cost per row.
  void SaveCounters() {
    if (last_task != durable_task) PutCounter("task", last_task);
    if (last_event != durable_event) PutCounter("event", last_event);
  }

  struct Known {
    Known(std::int64_t row, std::string text) : id(row), base(std::move(text)) {}
    std::int64_t id;
    Template base;
  };

  Result<Unit> InPlace() const {
    if (Result<Unit> file = place.Check(); !file) return file;
    return log_place.Check();
  }

  StateLock lock;  // released last
  FilePlace place, log_place;
  std::unique_ptr<SQLite::Database> db;
  std::map<std::string, std::unique_ptr<SQLite::Statement>> statements;
  std::map<std::string, Known> templates;  // by user
  std::map<std::int64_t, BooksId> books;   // by the first task number
  Transaction batch = Transaction::kNone;
  Durability durability = Durability::kNow;  // as set by OpenForWork
  // The highest numbers ever assigned. last_… includes the open batch; durable_… does not.
  std::int64_t durable_task = 0, last_task = 0;
  std::int64_t durable_event = 0, last_event = 0;

  const std::string put_task = InsertTaskSql();
  const std::string put_record = UpdateRecordSql();
  const std::string select_tasks = SelectTasksSql();
  const std::string by_id = "WHERE task.id=? AND " + std::string(kArrived);
};

}  // namespace carma::store
