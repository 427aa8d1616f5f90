// A library as NVIDIA's profilers have one: NVTX loads it into a program that it is to observe. It
// writes down the ranges of the domain "reef", a line each, thread by thread.

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Observed {
  std::mutex mutex;
  std::vector<std::string> registered;
  std::map<std::thread::id, std::vector<std::string>> open;
  std::string text;
};

Observed& observed() {
  static Observed the;
  return the;
}

int domain_object = 0;  // its address is the handle of "reef"

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return std::string(name) == "reef" ? reinterpret_cast<nvtxDomainHandle_t>(&domain_object)
                                     : nullptr;
}

nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  const std::scoped_lock lock(observed().mutex);
  observed().registered.emplace_back(text);
  return reinterpret_cast<nvtxStringHandle_t>(observed().registered.size());
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  const std::scoped_lock lock(observed().mutex);
  const auto handle = reinterpret_cast<std::uintptr_t>(event->message.registered);
  const bool right = domain == reinterpret_cast<nvtxDomainHandle_t>(&domain_object) &&
                     event->version == NVTX_VERSION && event->size == sizeof(*event) &&
                     event->messageType == NVTX_MESSAGE_TYPE_REGISTERED && handle > 0 &&
                     handle <= observed().registered.size();
  auto& open = observed().open[std::this_thread::get_id()];
  open.push_back(right ? observed().registered[handle - 1] : "(wrong attributes)");
  observed().text += "push " + open.back() + "\n";
  return static_cast<int>(open.size()) - 1;
}

int NVTX_API pop(nvtxDomainHandle_t) {
  const std::scoped_lock lock(observed().mutex);
  auto& open = observed().open[std::this_thread::get_id()];
  observed().text += open.empty() ? "pop of nothing\n" : "pop " + open.back() + "\n";
  if (!open.empty()) open.pop_back();
  return static_cast<int>(open.size());
}

template <class Function>
void replace(NvtxFunctionTable table, unsigned int size, unsigned int index, Function function) {
  if (index < size) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

/// NVTX calls it when the program first calls NVTX.
extern "C" NVTX_DYNAMIC_EXPORT int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* tables = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (tables == nullptr || tables->GetModuleFunctionTable == nullptr ||
      tables->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  replace(table, size, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  replace(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
  replace(table, size, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  replace(table, size, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}

/// What was observed so far, for the test.
extern "C" NVTX_DYNAMIC_EXPORT const char* reef_observed() {
  const std::scoped_lock lock(observed().mutex);
  static std::string copy;
  copy = observed().text;
  return copy.c_str();
}
