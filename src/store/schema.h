// Defines the state file's tables and upgrades older files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace carma::store {

// "CRMA" in the file's header. It distinguishes CARMA's file from other SQLite databases.
inline constexpr std::int32_t kApplicationId = 0x43524D41;

// An upgrade from version - 1 to version (PRAGMA user_version): SQL that runs in one transaction.
// The first step creates the tables of the oldest version that can be opened. Never edit a released
// step; add every change to the tables as a new step at the end.
struct Migration {
  int version;
  std::string_view sql;
};
std::span<const Migration> Migrations();
int SchemaVersion();  // the newest version

}  // namespace carma::store
