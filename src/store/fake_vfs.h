// A simulated disk for tests. It records which writes were synced, can lose unsynced writes, and
// can be full.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/rng.h"

namespace carma::store {

// While an instance exists, it is SQLite's default file system. It passes calls on to the real file
// system. Only one instance may exist at a time.
class FakeVfs {
 public:
  FakeVfs() : real_(sqlite3_vfs_find(nullptr)), vfs_(*real_) {
    current_ = this;
    vfs_.zName = "faulty";
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.xOpen = &Open;
    vfs_.xDelete = &Delete;
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~FakeVfs() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
    current_ = nullptr;
  }
  FakeVfs(const FakeVfs&) = delete;
  FakeVfs& operator=(const FakeVfs&) = delete;

  // Called before every write, truncation and sync, the points at which power may fail.
  std::function<void()> at_each_change;
  // Number of bytes that can still be written. After that, writes fail as on a full disk. Empty if
  // there is no limit.
  std::optional<std::int64_t> space_left;
  bool syncs_fail = false;

  // Possible contents of the files after a power failure at this moment: everything that was
  // synced, and some of the later writes, which may be torn at sector boundaries.
  std::map<std::string, std::string> AfterPowerFailure(base::Rng& rng) const {
    constexpr std::uint64_t kSector = 512;
    std::map<std::string, std::string> files;
    for (const auto& [path, disk] : disks_) {
      std::string image = disk.synced;
      for (const Change& change : disk.unsynced) {
        const std::uint64_t fate = rng.Below(3);
        if (fate == 0) continue;
        Change kept = change;
        if (fate == 1) kept.bytes.resize(rng.Below(kept.bytes.size() / kSector + 1) * kSector);
        kept.Apply(image);
      }
      files[path] = image;
    }
    return files;
  }

 private:
  struct Change {
    std::int64_t offset = 0;
    std::string bytes;
    std::optional<std::int64_t> new_size;  // a truncation
    void Apply(std::string& image) const {
      if (new_size) return image.resize(static_cast<std::size_t>(*new_size));
      const std::size_t end = static_cast<std::size_t>(offset) + bytes.size();
      if (image.size() < end && !bytes.empty()) image.resize(end);
      std::copy(bytes.begin(), bytes.end(), image.begin() + offset);
    }
  };
  struct Disk {
    std::string synced;
    std::vector<Change> unsynced;
  };
  struct File {
    sqlite3_file base;
    Disk* disk;  // null: a temporary file
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };

  static File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
  static sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real(); }
  static void Note(sqlite3_file* file, Change change) {
    if (Of(file)->disk != nullptr) Of(file)->disk->unsynced.push_back(std::move(change));
  }
  static void Tell() {
    if (current_->at_each_change) current_->at_each_change();
  }

  static int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
    File* opened = new (file) File{};
    const int rc = current_->real_->xOpen(current_->real_, name, opened->real(), flags, out);
    if (rc != SQLITE_OK) return rc;
    if (name != nullptr && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) != 0) {
      const auto [disk, fresh] = current_->disks_.try_emplace(name);
      if (fresh) disk->second.synced = base::ReadFile(name, 1 << 30).value_or("");
      opened->disk = &disk->second;
    }
    opened->base.pMethods = &kMethods;
    return SQLITE_OK;
  }
  static int Delete(sqlite3_vfs*, const char* name, int sync) {
    current_->disks_.erase(name);
    return current_->real_->xDelete(current_->real_, name, sync);
  }

  static int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
  static int Read(sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
    return Real(f)->pMethods->xRead(Real(f), to, n, at);
  }
  static int Write(sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
    Tell();
    if (current_->space_left) {
      if (*current_->space_left < n) return SQLITE_FULL;
      *current_->space_left -= n;
    }
    Note(f, {.offset = at, .bytes = {static_cast<const char*>(from), static_cast<std::size_t>(n)}});
    return Real(f)->pMethods->xWrite(Real(f), from, n, at);
  }
  static int Truncate(sqlite3_file* f, sqlite3_int64 size) {
    Tell();
    Note(f, {.new_size = size});
    return Real(f)->pMethods->xTruncate(Real(f), size);
  }
  static int Sync(sqlite3_file* f, int flags) {
    Tell();
    if (current_->syncs_fail) return SQLITE_IOERR_FSYNC;
    if (Disk* disk = Of(f)->disk; disk != nullptr) {
      for (const Change& change : disk->unsynced) change.Apply(disk->synced);
      disk->unsynced.clear();
    }
    return Real(f)->pMethods->xSync(Real(f), flags);
  }
  static int FileSize(sqlite3_file* f, sqlite3_int64* size) {
    return Real(f)->pMethods->xFileSize(Real(f), size);
  }
  static int Lock(sqlite3_file* f, int level) { return Real(f)->pMethods->xLock(Real(f), level); }
  static int Unlock(sqlite3_file* f, int level) {
    return Real(f)->pMethods->xUnlock(Real(f), level);
  }
  static int CheckReserved(sqlite3_file* f, int* out) {
    return Real(f)->pMethods->xCheckReservedLock(Real(f), out);
  }
  static int Control(sqlite3_file* f, int op, void* argument) {
    return Real(f)->pMethods->xFileControl(Real(f), op, argument);
  }
  static int SectorSize(sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); }
  static int Characteristics(sqlite3_file* f) {
    return Real(f)->pMethods->xDeviceCharacteristics(Real(f));
  }
  static int ShmMap(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
    return Real(f)->pMethods->xShmMap(Real(f), page, size, extend, out);
  }
  static int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
    return Real(f)->pMethods->xShmLock(Real(f), offset, n, flags);
  }
  static void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
  static int ShmUnmap(sqlite3_file* f, int erase) {
    return Real(f)->pMethods->xShmUnmap(Real(f), erase);
  }

  static constexpr sqlite3_io_methods kMethods = {2,
                                                  &Close,
                                                  &Read,
                                                  &Write,
                                                  &Truncate,
                                                  &Sync,
                                                  &FileSize,
                                                  &Lock,
                                                  &Unlock,
                                                  &CheckReserved,
                                                  &Control,
                                                  &SectorSize,
                                                  &Characteristics,
                                                  &ShmMap,
                                                  &ShmLock,
                                                  &ShmBarrier,
                                                  &ShmUnmap,
                                                  nullptr,
                                                  nullptr};

  static inline FakeVfs* current_ = nullptr;
  sqlite3_vfs* real_;
  sqlite3_vfs vfs_;
  std::map<std::string, Disk> disks_;
};

}  // namespace carma::store
