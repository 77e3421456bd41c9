# The rules of the build: how a module, its tests and a program are declared.

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(Boost 1.81 REQUIRED)

# Linked statically, because loading five C++ libraries takes twice as long as all the work of `carma submit`. Of fmt and spdlog
# only the headers are needed (base/compiled_fmt.cc).
find_library(CARMA_SQLITECPP libSQLiteCpp.a REQUIRED)
find_library(CARMA_SQLITE libsqlite3.a REQUIRED)
find_library(CARMA_ZLIB libz.a REQUIRED)

find_program(CARMA_CCACHE ccache)
if(CARMA_CCACHE)
  # CCACHE_SLOPPINESS as precompiled headers require. With the other settings, all checkouts share cached objects. A shared object
  # of a release build may name another checkout's folder as its source folder; only a debugger notices.
  set(CARMA_CCACHE_SETTINGS CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND CARMA_CCACHE_SETTINGS CCACHE_NOHASHDIR=1)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${CARMA_CCACHE_SETTINGS} ${CARMA_CCACHE})
endif()
find_program(CARMA_MOLD mold)
if(CARMA_MOLD AND NOT CARMA_FUZZ AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # When it optimises, g++ 12 reports these inside its own <optional>, <variant> and <string>.
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-missing-field-initializers)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  add_compile_options(-Wno-stringop-overread)  # the same of g++ 14, for Debian 13
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-missing-field-initializers)
endif()
if(CARMA_SANITIZE)
  add_compile_options(-fsanitize=${CARMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CARMA_SANITIZE})
endif()

if(CARMA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage for libFuzzer in every module
endif()

# The same options for libraries and programs, so that they can share precompiled headers. The linker drops functions that a
# program does not call.
add_compile_options(-fPIC -ffunction-sections -fdata-sections)

# Precompiled: the headers of the standard library and fmt that most files include. This saves a quarter of a build's time and,
# with the headers of googletest, two fifths of the tests' build time. Other headers do not pay: those of nlohmann_json and CLI11
# define so many inline functions that files which do not use them would compile more slowly. Every file still includes what it
# uses, because the analysers' builds (preset fuzz) have no precompiled headers.
option(CARMA_PRECOMPILED "precompile common headers" ON)
set(CARMA_COMMON_HEADERS <algorithm> <chrono> <cstdint> <expected> <filesystem> <functional> <map> <memory> <optional> <set>
  <span> <string> <string_view> <unordered_map> <variant> <vector> <fmt/format.h>)
# Test code is compiled often and run only once or twice. A QUICK module mostly waits for people, files and processes, so -O1 is
# enough for it, which compiles a quarter faster.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(CARMA_QUICK_OPTIONS -O1)
  set(CARMA_TEST_OPTIONS -O0)
endif()

function(carma_precompile name)
  cmake_parse_arguments(PCH "" "" "OPTIONS;LINK;HEADERS" ${ARGN})
  if(NOT CARMA_PRECOMPILED)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/empty.cc "")
  add_library(carma_${name} OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
  target_compile_options(carma_${name} PRIVATE ${PCH_OPTIONS})
  target_link_libraries(carma_${name} PRIVATE ${PCH_LINK})
  target_precompile_headers(carma_${name} PRIVATE ${CARMA_COMMON_HEADERS} ${PCH_HEADERS})
endfunction()
carma_precompile(headers)
carma_precompile(quick_headers OPTIONS ${CARMA_QUICK_OPTIONS})
carma_precompile(test_headers OPTIONS ${CARMA_TEST_OPTIONS} LINK GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)

# carma_use_headers(carma_core headers): the target uses this set of the precompiled headers above.
function(carma_use_headers target which)
  if(CARMA_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM carma_${which})
  endif()
endfunction()
# Sets up a test program: not optimised, with the headers of googletest.
function(carma_test_program target)
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/test_paths)
  target_compile_options(${target} PRIVATE ${CARMA_TEST_OPTIONS})
  target_link_libraries(${target} PRIVATE GTest::gmock)
  carma_use_headers(${target} test_headers)
endfunction()

# The paths of files that tests read or load. They are in a header, not in compiler flags, so objects that do not need them are the
# same in every checkout.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/test_paths/test_paths.h CONTENT
"#pragma once
#define CARMA_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\"
#define CARMA_FAKE_NVML \"$<TARGET_FILE:gpu_fake_nvml>\"
#define CARMA_FAKE_CUDA_DIR \"${CMAKE_BINARY_DIR}/src/gpu/fake_cuda\"
#define CARMA_CONTEXT_HOLDER \"$<TARGET_FILE:gpu_context_holder>\"
#define CARMA_SIMGPU_DRIVER \"${CMAKE_BINARY_DIR}/bin/libcarma-simgpu.so\"
")

# Lists for each folder the folders that it may include from. The modules below write it, tools/check_layers.py reads it.
set(CARMA_LAYERS ${CMAKE_BINARY_DIR}/layers.txt)
file(WRITE ${CARMA_LAYERS} "")
# The folder of a module follows from its target: carma::sim is lab/sim.
function(carma_layer folder)
  set(allowed "")
  foreach(dependency ${ARGN})
    string(REPLACE "carma::" "" other "${dependency}")
    string(REGEX REPLACE "_fakes$" "" other "${other}")
    get_property(other_folder GLOBAL PROPERTY carma_folder_${other})
    list(APPEND allowed "${other_folder}")
    if(NOT other_folder)
      list(APPEND allowed "${other}")
    endif()
  endforeach()
  list(JOIN allowed " " allowed)
  file(APPEND ${CARMA_LAYERS} "${folder}: ${allowed}\n")
endfunction()

# A build without a cache spends most of its time on headers and templates that many files of a folder use. So up to 24 files of
# a folder are compiled together, in less than half the time. Names that are local to a file must therefore be unique in the
# folder: the compiler reports a name that two files define, and tools/check_layers.py one that a header also has. APART lists
# files that are compiled alone. Tests are compiled in the same way. The debug and fuzz builds compile each file separately.
option(CARMA_UNITY "compile the files of a folder together, 24 at a time" OFF)
if(CARMA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)  # a private member's type in an anonymous namespace; each file is included once
endif()
function(carma_unity files name apart)
  if(NOT CARMA_UNITY)
    return()
  endif()
  set(result "")
  set(last "")
  foreach(source ${${files}})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH file ${PROJECT_SOURCE_DIR}/src ${source})
    file(RELATIVE_PATH short ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    if(short IN_LIST apart)
      list(APPEND result ${source})
      continue()
    endif()
    if(NOT folder STREQUAL last)
      set(last ${folder})
      set(number 0)
    endif()
    math(EXPR part "${number} / 24")
    math(EXPR number "${number} + 1")
    file(RELATIVE_PATH part_name ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/${part})
    set(together ${CMAKE_CURRENT_BINARY_DIR}/${name}/${part_name}.cc)
    string(APPEND text_${together} "#include \"${file}\"\n")
    list(APPEND result ${together})
  endforeach()
  list(REMOVE_DUPLICATES result)
  foreach(together ${result})
    if(DEFINED text_${together})
      file(CONFIGURE OUTPUT ${together} CONTENT "${text_${together}}" @ONLY)
    endif()
  endforeach()
  set(${files} ${result} PARENT_SCOPE)
endfunction()

# carma_module(task QUICK FOLDERS process describe DEPENDS carma::base carma::core [LINK …] [TEST_LINK …] [APART …])
# The *.cc files of the folder and of its FOLDERS become the library carma::task, its *_test.cc files the test program task_test,
# and its fake_*.cc files the library carma::task_fakes, which only tests link.
# DEPENDS names the modules whose headers the module includes, TEST_LINK those that only its tests include. A subfolder may include
# the subfolders before it in FOLDERS and the module's own files; the module's own files include no subfolder.
function(carma_module name)
  cmake_parse_arguments(MODULE "QUICK" "" "FOLDERS;DEPENDS;LINK;TEST_LINK;APART" ${ARGN})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  set_property(GLOBAL PROPERTY carma_folder_${name} ${folder})
  carma_layer(${folder} ${MODULE_DEPENDS})
  set(before ${folder})
  foreach(subfolder ${MODULE_FOLDERS})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${subfolder}/*.cc)
    carma_layer(${folder}/${subfolder} ${before} ${MODULE_DEPENDS})
    list(APPEND before ${folder}/${subfolder})
  endforeach()
  carma_layer(${folder}+tests ${before} ${MODULE_DEPENDS} ${MODULE_TEST_LINK})
  file(APPEND ${CARMA_LAYERS} "@module: ${folder}\n")
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fakes ${sources})
  list(FILTER sources EXCLUDE REGEX "/fake_[a-z_]*\\.cc$")
  list(FILTER fakes INCLUDE REGEX "/fake_[a-z_]*\\.cc$")
  carma_unity(sources sources "${MODULE_APART}")
  add_library(carma_${name} STATIC ${sources})
  add_library(carma::${name} ALIAS carma_${name})
  target_include_directories(carma_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(carma_${name} PUBLIC ${MODULE_DEPENDS} ${MODULE_LINK})
  if(MODULE_QUICK)
    target_compile_options(carma_${name} PRIVATE ${CARMA_QUICK_OPTIONS})
    carma_use_headers(carma_${name} quick_headers)
  else()
    carma_use_headers(carma_${name} headers)
  endif()
  if(fakes)
    add_library(carma_${name}_fakes STATIC ${fakes})
    add_library(carma::${name}_fakes ALIAS carma_${name}_fakes)
    target_link_libraries(carma_${name}_fakes PUBLIC carma::${name})
    carma_test_program(carma_${name}_fakes)
    list(APPEND MODULE_TEST_LINK carma::${name}_fakes)
  endif()
  if(tests)
    carma_unity(tests tests "")
    add_executable(${name}_test ${tests})
    carma_test_program(${name}_test)
    target_link_libraries(${name}_test PRIVATE carma::${name} ${MODULE_TEST_LINK} GTest::gtest_main)
    add_test(NAME ${name}_test COMMAND ${name}_test)
    set_tests_properties(${name}_test PROPERTIES TIMEOUT 300)
    if(NOT MODULE_QUICK)
      set_tests_properties(${name}_test PROPERTIES PROCESSORS 2)  # it computes (./dev test)
    endif()
  endif()
endfunction()

# Of the machine's libraries, installed programs use only glibc. Under sanitizers they also use the shared C++ library: if a library
# that is loaded and closed again had its own copy, the memory that this copy reserves for exceptions would leak.
function(carma_link_static target)
  if(NOT CARMA_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  target_link_options(${target} PRIVATE -Wl,--as-needed,--gc-sections)
  carma_portable(${target})
endfunction()

# The target `portable` links the installed programs a second time, from the same objects, into the folder portable: against an
# older C library, so that they start on older distributions than this one. A function that the older library lacks must be defined
# in packaging/old_libc.cc; otherwise linking fails.
set(CARMA_OLD_LIBC "" CACHE PATH "folder made by packaging/old_libc.sh; empty: there is no target `portable`")
if(CARMA_OLD_LIBC)
  add_custom_target(portable)
  add_library(carma_old_libc OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/packaging/old_libc.cc)
  # Other libraries of a process keep their own functions.
  target_compile_options(carma_old_libc PRIVATE -fvisibility=hidden)
endif()
function(carma_portable target)
  if(NOT CARMA_OLD_LIBC)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  set(objects $<TARGET_OBJECTS:${target}> $<TARGET_OBJECTS:carma_old_libc>)
  if(type STREQUAL "EXECUTABLE")
    add_executable(${target}_portable EXCLUDE_FROM_ALL ${objects})
  else()
    add_library(${target}_portable SHARED EXCLUDE_FROM_ALL ${objects})
  endif()
  set_target_properties(${target}_portable PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME $<TARGET_FILE_BASE_NAME:${target}> PREFIX ""
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable)
  # Without -B and -L the compiler finds its own start files and C library first.
  set(folder lib/${CMAKE_LIBRARY_ARCHITECTURE})
  target_link_options(${target}_portable PRIVATE $<TARGET_PROPERTY:${target},LINK_OPTIONS> --sysroot=${CARMA_OLD_LIBC}
    -B${CARMA_OLD_LIBC}/usr/${folder}/ -L${CARMA_OLD_LIBC}/usr/${folder} -L${CARMA_OLD_LIBC}/${folder}
    -Wl,--wrap=exp,--wrap=exp2,--wrap=log,--wrap=log2,--wrap=pow
    -Wl,--wrap=posix_spawnp,--wrap=posix_spawn_file_actions_addchdir_np)
  target_link_libraries(${target}_portable PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES> pthread dl rt util)
  add_dependencies(portable ${target}_portable)
endfunction()

# carma_program(carmad SOURCES carmad.cc DEPENDS carma::daemon): one installed executable.
function(carma_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;DEPENDS" ${ARGN})
  carma_layer(apps ${PROGRAM_DEPENDS})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_compile_definitions(${name} PRIVATE CARMA_VERSION="${PROJECT_VERSION}")
  target_compile_options(${name} PRIVATE ${CARMA_QUICK_OPTIONS})
  target_link_libraries(${name} PRIVATE ${PROGRAM_DEPENDS})
  carma_use_headers(${name} quick_headers)
  carma_link_static(${name})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# carma_other_names(srun libexec/carma sbatch): makes links next to a program, which behaves according to the name by which it is
# started. A separate program for each name would take a megabyte, nearly all of it the C++ library.
function(carma_other_names target destination)
  foreach(name ${ARGN})
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE_NAME:${target}> $<TARGET_FILE_DIR:${target}>/${name})
    install(FILES $<TARGET_FILE_DIR:${target}>/${name} DESTINATION ${destination})
  endforeach()
endfunction()

# Adds a generated source as a separate target. Otherwise the command that generates it would wait for all libraries of `target`,
# and the other sources of `target` would wait for the command.
function(carma_add_generated target symbol out)
  add_library(${target}_${symbol} OBJECT ${out})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${symbol}>)
endfunction()

# carma_embed(carma_simgpu ${PROJECT_SOURCE_DIR}/data/gpus/gpus.csv kGpuTypesCsv carma::simgpu)
# makes `extern const std::string_view kGpuTypesCsv` in the given namespace from a text file.
function(carma_embed target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${out} -DSYMBOL=${symbol} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  carma_add_generated(${target} ${symbol} ${out})
endfunction()

# The same for a binary file, which may have megabytes.
function(carma_embed_binary target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${out} -DSYMBOL=${symbol} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_binary.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed_binary.cmake VERBATIM)
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS ${file})
  carma_add_generated(${target} ${symbol} ${out})
endfunction()
