#include <cstdio>

#include <reef/core/shape.hpp>
#include <reef/core/version.hpp>

void PART() {
  const reef::Shape shape{2, 3, 4};
  std::printf("reef %s: %s holds %lld elements\n", reef::version, shape.text().c_str(),
              static_cast<long long>(shape.size()));
}
