get_filename_component(part "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
add_library(part_${part} STATIC ../part.cpp)
target_compile_definitions(part_${part} PRIVATE PART=part_${part})
target_link_libraries(part_${part} PUBLIC reef::core)
