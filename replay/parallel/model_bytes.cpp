// SPDX-License-Identifier: BSD-3-Clause
// What was learned, between processes. All of it adds up: see Model::merge.
#include "replay/base/bytes.hpp"
#include "replay/model/model.hpp"

namespace polter::replay {

namespace {

void put(Bytes& to, const InstanceSample& sample) {
    to.put(sample.ordinal);
    to.put(sample.root);
    to.put(static_cast<uint64_t>(sample.partition ? sample.partition->size() : 0));
    for (size_t i = 0; sample.partition && i < sample.partition->size(); ++i) to.put((*sample.partition)[i]);
    sample.sizes.write(to);
    to.put(static_cast<uint64_t>(sample.transfers.size()));
    for (const TransfersOfMember& its : sample.transfers) {
        to.put(its.awaited);
        to.put(its.taken);
        to.put(its.taken_share);
    }
    to.put(sample.enter);
    to.put(sample.leave);
    to.put(sample.resume);
    to.put(static_cast<uint64_t>(sample.noise.size()));
    for (const auto& pieces : sample.noise) to.put(pieces);
}

void put(Bytes& to, const Histogram& histogram) {
    to.put(static_cast<uint64_t>(histogram.bins().size()));
    for (const auto& [at, bin] : histogram.bins()) {
        to.put(at);
        to.put(bin);
    }
}

void get(Input& from, Histogram& histogram) {
    for (auto bins = from.get<uint64_t>(); bins > 0; --bins) {
        const auto at = from.get<uint16_t>();
        histogram.merge(at, from.get<Histogram::Bin>());
    }
}

void put(Bytes& to, const CostLimits& limits) {
    put(to, limits.exact_values());
    put(to, limits.open_least());
    put(to, limits.open_most());
}

void get(Input& from, CostLimits& limits) {
    get(from, limits.exact_values());
    get(from, limits.open_least());
    get(from, limits.open_most());
}

InstanceSample get_sample(Input& from) {
    InstanceSample sample;
    sample.ordinal = from.get<uint64_t>();
    sample.root = from.get<uint32_t>();
    Partition partition(from.get<uint64_t>());
    for (auto& group : partition) from.get(group);
    if (!partition.empty()) sample.partition = interned(partition);
    sample.sizes.read(from);
    sample.transfers.resize(from.get<uint64_t>());
    for (TransfersOfMember& its : sample.transfers) {
        from.get(its.awaited);
        its.taken = from.get<uint32_t>();
        its.taken_share = from.get<double>();
    }
    from.get(sample.enter);
    from.get(sample.leave);
    from.get(sample.resume);
    sample.noise.resize(from.get<uint64_t>());
    for (auto& pieces : sample.noise) from.get(pieces);
    return sample;
}

}  // namespace

void Model::write(Bytes& to) const {
    to.put(clock_disorder_ns);
    to.put(static_cast<uint64_t>(samples_.size()));
    for (const auto& [key, samples] : samples_) {
        to.put(samples.of);
        to.put(samples.first);
        to.put(static_cast<uint64_t>(samples.by_slack.size()));
        for (const auto& [slack, limits] : samples.by_slack) {
            to.put(slack);
            put(to, limits);
        }
    }
    to.put(static_cast<uint64_t>(waits_.size()));
    for (const auto& [key, wait] : waits_) {
        to.put(wait.own);
        to.put(wait.message);
        to.put(static_cast<uint64_t>(wait.samples.by_slack().size()));
        for (const auto& [bin, limits] : wait.samples.by_slack()) {
            to.put(bin);
            put(to, limits);
        }
        to.put(static_cast<uint64_t>(wait.samples.by_taken().size()));
        for (const auto& [bin, way] : wait.samples.by_taken()) {
            to.put(bin);
            put(to, way.since_send);
            put(to, way.since_both);
        }
    }
    to.put(static_cast<uint64_t>(protocols_.size()));
    for (const auto& [key, protocol] : protocols_) {
        to.put(key);
        to.put(protocol);
    }
    to.put(static_cast<uint64_t>(late_or_arrival_.size()));
    for (const auto& [key, open] : late_or_arrival_) {
        to.put(key.first);
        to.put(open.protocol);
        to.put(open.message);
        put(to, open.after);
    }
    to.put(static_cast<uint64_t>(instances_.size()));
    for (const auto& [key, instances] : instances_) {
        to.put(key.second);
        to.put(instances.of);
        to.put(instances.by_root);
        to.put(instances.waits);
        to.put(instances.apart);
        to.put(instances.any_size);
        to.put(static_cast<uint64_t>(instances.kept.size()));
        for (const auto& [hash, sample] : instances.kept) {
            to.put(hash);
            put(to, sample);
        }
        to.put(static_cast<uint64_t>(instances.firsts.size()));
        for (const auto& [of, first] : instances.firsts) {
            to.put(of);
            to.put(first.number);
            put(to, first.sample);
        }
    }
}

Model Model::read(Input& from, Faults faults) {
    Model model(faults);
    model.clock_disorder_ns = from.get<int64_t>();
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto of = from.get<CostClass>();
        Samples& samples = model.samples_[of.key()];
        samples.of = of;
        samples.first = from.get<int64_t>();
        for (auto slacks = from.get<uint64_t>(); slacks > 0; --slacks) {
            get(from, samples.by_slack[from.get<int>()]);
        }
    }
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        Wait wait;
        wait.own = from.get<CostClass>();
        wait.message = from.get<CostClass>();
        for (auto bins = from.get<uint64_t>(); bins > 0; --bins) get(from, wait.samples.by_slack()[from.get<int>()]);
        for (auto bins = from.get<uint64_t>(); bins > 0; --bins) {
            WaitSamples::UnderWay& way = wait.samples.by_taken()[from.get<int>()];
            get(from, way.since_send);
            get(from, way.since_both);
        }
        model.waits_[{wait.own.key(), wait.message.key()}] = std::move(wait);
    }
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto key = from.get<uint64_t>();
        model.protocols_[key] = from.get<LearnedProtocol>();
    }
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto key = from.get<uint64_t>();
        LateOrArrival open;
        open.protocol = from.get<LearnedProtocol>();
        open.message = from.get<CostClass>();
        get(from, open.after);
        model.late_or_arrival_[{key, open.message.key()}] = open;
    }
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto members = from.get<uint32_t>();
        Instances instances;
        instances.of = from.get<CostClass>();
        instances.by_root = from.get<CostClass>();
        instances.waits = from.get<Waits>();
        instances.apart = from.get<bool>();
        instances.any_size = from.get<bool>();
        for (auto kept = from.get<uint64_t>(); kept > 0; --kept) {
            const auto hash = from.get<uint64_t>();
            instances.kept[hash] = get_sample(from);
        }
        for (auto firsts = from.get<uint64_t>(); firsts > 0; --firsts) {
            const auto of = from.get<uint64_t>(), number = from.get<uint64_t>();
            instances.firsts[of] = {number, get_sample(from)};
        }
        model.instances_[{instances.of.key(), members}] = std::move(instances);
    }
    return model;
}

}  // namespace polter::replay
