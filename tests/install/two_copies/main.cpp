#include <cstdio>

#include <reef/core/shape.hpp>
#include <reef/core/version.hpp>

long long part_first();
long long part_second();
long long part_third();

int main() {
  const reef::Shape shape{2, 3, 4};
  const bool equal = part_first() == shape.size() && part_second() == part_third();
  std::printf("reef %s: %s holds %lld elements\n", reef::version, shape.text().c_str(),
              equal ? part_third() : -1);
}
