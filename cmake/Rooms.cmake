# A room is a static library in src/<room>/ that may use exactly the rooms and libraries it lists,
# so that an include of a higher room does not link. Its *_test.cc files make one test program.
#
#   sumcast_room(numeric USES base LIBRARIES PkgConfig::hwy LABELS unit)
include(GoogleTest)

function(sumcast_room name)
  cmake_parse_arguments(ROOM "" "DIR" "USES;LIBRARIES;TEST_USES;LABELS" ${ARGN})
  if(NOT ROOM_DIR)
    set(ROOM_DIR ${PROJECT_SOURCE_DIR}/src/${name})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${ROOM_DIR}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${ROOM_DIR}/*_test.cc)
  file(GLOB mains CONFIGURE_DEPENDS ${ROOM_DIR}/*_main.cc)
  list(REMOVE_ITEM sources ${tests} ${mains} "")
  if(NOT sources)
    return()  # A room that is still empty.
  endif()
  set(rooms ${ROOM_USES})
  list(TRANSFORM rooms PREPEND sumcast_)
  add_library(sumcast_${name} STATIC ${sources})
  target_link_libraries(sumcast_${name} PUBLIC sumcast_flags ${rooms} ${ROOM_LIBRARIES})
  if(tests AND BUILD_TESTING)
    set(test_rooms ${ROOM_TEST_USES})
    list(TRANSFORM test_rooms PREPEND sumcast_)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE sumcast_${name} ${test_rooms} GTest::gmock_main)
    if(NOT ROOM_LABELS)
      set(ROOM_LABELS unit)
    endif()
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS "${ROOM_LABELS}" TIMEOUT 300)
  endif()
endfunction()
