// SPDX-License-Identifier: BSD-3-Clause
#include "call_sites.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "archive.hpp"
#include "own_part.hpp"

namespace polter::write {

namespace {

constexpr size_t first_slots = 256;
constexpr uint32_t no_object = UINT32_MAX;

size_t hashed(const void* address) {
    return reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15u >> 20;
}

}  // namespace

// Code made at run time may call from ever new addresses: the last id stands for all that are too many.
uint32_t CallSiteIds::id(const void* address) {
    const NoCancel no_cancel;
    const std::lock_guard lock(mutex_);
    uint64_t offset = 0;
    uint32_t in = object(address, &offset);
    if (const auto known = ids_.find({in, offset}); known != ids_.end()) return known->second;
    const auto id = static_cast<uint32_t>(ids_.size());
    if (id >= trace::most_call_sites) return trace::most_call_sites - 1;
    nlohmann::ordered_json line{{"call_site", id}};
    if (id == trace::most_call_sites - 1) in = no_object, offset = 0;
    if (in != no_object) line["object"] = in;
    line["address"] = offset;
    archive_.define(line);
    ids_[{in, offset}] = id;
    return id;
}

uint32_t CallSiteIds::object(const void* address, uint64_t* offset) {
    *offset = reinterpret_cast<uintptr_t>(address);
    const auto found = object_at(address);
    if (!found) return no_object;
    *offset -= found->base;
    const auto same = [&](const LoadedObject& one) {
        return one.base == found->base && one.path == found->path && one.build_id == found->build_id;
    };
    const auto known = std::find_if(objects_.begin(), objects_.end(), same);
    const auto number = static_cast<uint32_t>(known - objects_.begin());
    if (known == objects_.end()) {
        if (number >= trace::most_objects) return no_object;
        objects_.push_back(*found);
        archive_.define({{"object", number},
                         {"path", found->path},
                         {"build_id", found->build_id},
                         {"bytes", found->bytes},
                         {"modified_seconds", found->modified_seconds}});
    }
    return number;
}

// What follows what stays known: the reader of the trace goes on with it.
void CallSites::forget_addresses() {
    generation_ = unloaded.load(std::memory_order_relaxed);
    slots_.assign(first_slots, {});
    used_ = 0;
    for (Site& site : sites_) site.next_address = &site;
}

CallSites::Slot& CallSites::slot(const void* address) {
    const size_t mask = slots_.size() - 1;
    size_t at = hashed(address) & mask;
    while (slots_[at].site && slots_[at].address != address) at = (at + 1) & mask;
    return slots_[at];
}

void CallSites::grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    for (const Slot& one : before)
        if (one.site) slot(one.address) = one;
}

CallSites::Site& CallSites::find(const void* address) {
    if (Site* known = slot(address).site) return *known;
    const uint32_t id = ids_.id(address);
    Site*& site = by_id_[id];
    if (!site) {
        site = &sites_.emplace_back();
        site->id = id;
    }
    if (id == trace::most_call_sites - 1) return *site;  // one for all that are too many: no place for each
    if (2 * ++used_ > slots_.size()) grow();
    slot(address) = {address, site};
    return *site;
}

uint32_t CallSites::id(const void* address) {
    if (generation_ != unloaded.load(std::memory_order_relaxed)) forget_addresses();
    Site& site = find(address);
    if (!last_->next || last_->next == &site || last_->doubted) {
        last_->next_address = address;
        last_->next = &site;
        last_->doubted = false;
    } else {
        last_->doubted = true;
    }
    last_ = &site;
    return site.id;
}

}  // namespace polter::write
