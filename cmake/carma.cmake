# The house rules of the build: how a room, its tests and a program are declared.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(Boost 1.81 REQUIRED)

find_program(CARMA_CCACHE ccache)
if(CARMA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CARMA_CCACHE})
endif()
find_program(CARMA_MOLD mold)
if(CARMA_MOLD AND NOT CARMA_FUZZ)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside its own <optional>, <variant> and <string> under optimisation.
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-missing-field-initializers)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-missing-field-initializers)
endif()
if(CARMA_SANITIZE)
  add_compile_options(-fsanitize=${CARMA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CARMA_SANITIZE})
endif()

if(CARMA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage for libFuzzer in every room
endif()

# Who may include whom: one list, declared by the rooms below and read by tools/check_layers.py.
set(CARMA_LAYERS ${CMAKE_BINARY_DIR}/layers.txt)
file(WRITE ${CARMA_LAYERS} "")
function(carma_layer folder)
  string(REPLACE "carma::" "" allowed "${ARGN}")
  list(JOIN allowed " " allowed)
  file(APPEND ${CARMA_LAYERS} "${folder}: ${allowed}\n")
endfunction()

# carma_room(task HOUSES process describe DEPENDS carma::base carma::core [LINK …] [TEST_LINK …])
# The folder's *.cc, and those of its HOUSES (folders in it), become the library carma::task, its *_test.cc the one test
# program task_test, its fake_*.cc the library carma::task_fakes, which tests alone link.
# DEPENDS names the rooms whose headers it includes, TEST_LINK those that its tests include besides. A house includes
# what stands before it in HOUSES and the room's own files; the room's own files include no house.
function(carma_room name)
  cmake_parse_arguments(ROOM "" "" "HOUSES;DEPENDS;LINK;TEST_LINK" ${ARGN})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  carma_layer(${name} ${ROOM_DEPENDS})
  set(before ${name})
  foreach(house ${ROOM_HOUSES})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${house}/*.cc)
    carma_layer(${name}/${house} ${before} ${ROOM_DEPENDS})
    list(APPEND before ${name}/${house})
  endforeach()
  carma_layer(${name}+tests ${before} ${ROOM_DEPENDS} ${ROOM_TEST_LINK})
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fakes ${sources})
  list(FILTER sources EXCLUDE REGEX "/fake_[a-z_]*\\.cc$")
  list(FILTER fakes INCLUDE REGEX "/fake_[a-z_]*\\.cc$")
  add_library(carma_${name} STATIC ${sources})
  add_library(carma::${name} ALIAS carma_${name})
  target_include_directories(carma_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(carma_${name} PUBLIC ${ROOM_DEPENDS} ${ROOM_LINK})
  if(fakes)
    add_library(carma_${name}_fakes STATIC ${fakes})
    add_library(carma::${name}_fakes ALIAS carma_${name}_fakes)
    target_link_libraries(carma_${name}_fakes PUBLIC carma::${name})
    list(APPEND ROOM_TEST_LINK carma::${name}_fakes)
  endif()
  if(tests)
    add_executable(${name}_test ${tests})
    target_compile_definitions(${name}_test PRIVATE CARMA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_test PRIVATE carma::${name} ${ROOM_TEST_LINK} GTest::gmock GTest::gtest_main)
    add_test(NAME ${name}_test COMMAND ${name}_test)
    set_tests_properties(${name}_test PROPERTIES TIMEOUT 300)
  endif()
endfunction()

# carma_program(carmad SOURCES carmad.cc DEPENDS carma::daemon): one installed executable.
function(carma_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;DEPENDS" ${ARGN})
  carma_layer(apps ${PROGRAM_DEPENDS})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_compile_definitions(${name} PRIVATE CARMA_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PRIVATE ${PROGRAM_DEPENDS})
  # Installed beside its libraries (packaging/tarball.sh) it takes those, whatever LD_LIBRARY_PATH says. DT_RPATH, not
  # DT_RUNPATH: the latter is not asked for what the libraries themselves need.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# carma_embed(carma_simgpu ${PROJECT_SOURCE_DIR}/data/gpus/gpus.csv kGpuTypesCsv carma::simgpu)
# makes `extern const std::string_view kGpuTypesCsv` in the given namespace from a text file.
function(carma_embed target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${out} -DSYMBOL=${symbol} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

# The same for a file of any bytes, megabytes too.
function(carma_embed_binary target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${out} -DSYMBOL=${symbol} -DNAMESPACE=${namespace}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_binary.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed_binary.cmake VERBATIM)
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${out})
endfunction()
