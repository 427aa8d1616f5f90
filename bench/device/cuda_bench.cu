// What a GPU's memory, link and multipliers give, through a lane and, in the same run, beside it: copies beside
// the runtime's own, sums beside CUB's, elementwise work beside a copy on the device, products beside those of
// cuBLAS. `of_rival` is the rival's time over ours: 1 is equal, more is faster.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>

#include <benchmark/benchmark.h>
#include <cublas_v2.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_reduce.cuh>

#include <reef/core/text.hpp>
#include <reef/nn/cuda.cuh>

#include "support/cuda_measure.hpp"

namespace {

using namespace reef;
using device::Copy;
using device::Cuda;
using nn::Transpose;
using reef_bench::add_beside;
using reef_bench::Numbers;
using Lane = Cuda::Lane;

using Memory = std::shared_ptr<const Numbers>;

struct Square {
  __device__ double operator()(float x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

/// y = a x + y, as an optimizer's rules are written.
struct Axpy {
  float* y;
  const float* x;
  template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    at.store(y, at.load(y) + 0.5F * at.load(x));
  }
};

void add_copies(Cuda& cuda, Lane& lane, Bytes bytes) {
  const auto here = std::make_shared<Cuda::PinnedBuffer>(cuda.allocate_pinned(bytes, "here"));
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  const Memory one = std::make_shared<Numbers>(cuda, lane, count);
  const Memory other = std::make_shared<Numbers>(cuda, lane, count);
  const std::string size = concat("/", bytes >> 10, "KiB");
  const auto entry = [&](const char* name, Copy direction, cudaMemcpyKind kind, bool to,
                         bool from) {
    const auto at = [=](bool device, const Memory& memory) {
      return device ? static_cast<void*>(*memory) : here->data();
    };
    add_beside(
        lane, concat("copy_", name, size),
        [=](Lane& self) { self.copy(at(to, one), at(from, other), bytes, direction); },
        [=](Lane& self) {
          cudaMemcpyAsync(at(to, one), at(from, other), bytes, kind, self.stream());
        },
        "cudaMemcpyAsync", static_cast<double>(bytes), "bytes");
  };
  entry("to_device", Copy::to_device, cudaMemcpyHostToDevice, true, false);
  entry("to_host", Copy::to_host, cudaMemcpyDeviceToHost, false, true);
  entry("on_device", Copy::on_device, cudaMemcpyDeviceToDevice, true, true);
}

void add_sums(Cuda& cuda, Lane& lane, std::int64_t n) {
  const std::string size = concat("/", n);
  const Memory x = std::make_shared<Numbers>(cuda, lane, n);
  const Memory y = std::make_shared<Numbers>(cuda, lane, n);
  const Memory sums = std::make_shared<Numbers>(cuda, lane, 2 * ((n + 4095) / 4096 + 1));
  const auto squares = [=] {
    return thrust::make_transform_iterator(static_cast<const float*>(static_cast<float*>(*x)),
                                           Square{});
  };
  std::size_t room = 0;
  cub::DeviceReduce::Sum(nullptr, room, squares(), static_cast<double*>(*sums), n);
  const auto scratch =
      std::make_shared<Numbers>(cuda, lane, static_cast<std::int64_t>(room / sizeof(float)) + 1);
  add_beside(
      lane, concat("sums_of_squares", size),
      [=](Lane& self) {
        device::block_sums_of_squares<float>(self, n, static_cast<float*>(*x),
                                             static_cast<double*>(*sums));
      },
      [=](Lane& self) {
        std::size_t bytes = room;
        cub::DeviceReduce::Sum(static_cast<void*>(*scratch), bytes, squares(),
                               static_cast<double*>(*sums), n, self.stream());
      },
      "cub::DeviceReduce::Sum", 4.0 * static_cast<double>(n), "bytes");
  add_beside(
      lane, concat("axpy", size),
      [=](Lane& self) {
        device::transform_vectors<float>(self, n,
                                         Axpy{static_cast<float*>(*y), static_cast<float*>(*x)});
      },
      [=](Lane& self) {  // which moves two thirds of the bytes
        self.copy(*y, *x, static_cast<Bytes>(n) * sizeof(float), Copy::on_device);
      },
      "a copy of as many elements", 12.0 * static_cast<double>(n), "bytes");
}

/// cuBLAS, on the lane's stream; made on its thread.
class Blas {
public:
  explicit Blas(Lane& lane) {
    cublasCreate(&handle_);
    cublasSetStream(handle_, lane.stream());
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() { cublasDestroy(handle_); }

  /// C (m, n) = A (m, k) B (k, n), row by row: for cuBLAS, whose columns are our rows, C' = B' A'.
  template <class T>
  void multiply(T* c, const T* a, const T* b, std::int64_t m, std::int64_t n,
                std::int64_t k) const {
    constexpr cudaDataType type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;
    const float one = 1;
    const float zero = 0;
    const auto status = cublasGemmEx(
        handle_, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(n), static_cast<int>(m),
        static_cast<int>(k), &one, b, type, static_cast<int>(n), a, type, static_cast<int>(k),
        &zero, c, type, static_cast<int>(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS)
      std::printf("cuBLAS fails with %d\n", static_cast<int>(status));
  }

private:
  cublasHandle_t handle_ = nullptr;
};

template <real T>
void add_products(Cuda& cuda, Lane& lane, const std::shared_ptr<Blas>& blas, std::int64_t m,
                  std::int64_t n, std::int64_t k) {
  const Memory a = std::make_shared<Numbers>(cuda, lane, m * k);
  const Memory b = std::make_shared<Numbers>(cuda, lane, k * n);
  const Memory c = std::make_shared<Numbers>(cuda, lane, m * n);
  add_beside(
      lane, concat("product/", name_of(element_of<T>), "/", m, "x", n, "x", k),
      [=](Lane& self) {
        nn::Kernels<Cuda>::gemm<T, T>(self, Transpose::no, Transpose::no, m, n, k, sum_t<T>(1), *a,
                                      k, *b, n, sum_t<T>(0), *c, n, nullptr);
      },
      [=](Lane&) { blas->multiply<T>(*c, *a, *b, m, n, k); }, "cublasGemmEx",
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), "flops");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::string why;
  if (!device::cuda_available(&why)) {
    std::printf("skipped: %s\n", why.c_str());
    return 0;
  }
  Cuda cuda;
  Lane lane(cuda, "compute");
  std::printf("%s\n", cuda.properties().name);
  for (const Bytes bytes : {Bytes{64} << 10, Bytes{4} << 20, Bytes{256} << 20})
    add_copies(cuda, lane, bytes);
  for (const std::int64_t n :
       {std::int64_t{1} << 16, std::int64_t{1} << 22, std::int64_t{1} << 27}) {
    add_sums(cuda, lane, n);
  }
  const auto blas = std::make_shared<Blas>(lane);
  const auto products = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    add_products<float>(cuda, lane, blas, m, n, k);
    add_products<Bfloat16>(cuda, lane, blas, m, n, k);
  };
  products(2048, 1536, 384);
  products(8192, 3072, 768);
  products(8192, 768, 3072);
  products(8192, 50304, 768);
  products(8192, 8192, 8192);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // what they hold is of the device
}
