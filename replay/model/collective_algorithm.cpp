// SPDX-License-Identifier: BSD-3-Clause
#include "collective_algorithm.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "fit/collective_fit.hpp"

namespace polter::replay {

double typical(Distances& distances, bool noise_known) {
    constexpr size_t believed = 80;  // per cent
    // The rest decides only where all that is believed is exact, as it adds less than 1 ns: it is noise, which no algorithm explains, or
    // waits, which the right one does.
    constexpr double much = 10'000;
    double sum = 0, count = 0, beyond = 0;
    for (std::vector<int64_t>* list : {&distances.roots, &distances.others}) {
        auto end = list->end();
        if (!noise_known && !list->empty()) {
            end = list->begin() + static_cast<std::ptrdiff_t>((list->size() * believed + 99) / 100);
            if (end != list->end()) std::nth_element(list->begin(), end, list->end());
        }
        sum += std::accumulate(list->begin(), end, 0.0);
        beyond += std::accumulate(end, list->end(), 0.0);
        count += static_cast<double>(end - list->begin());
    }
    if (count == 0) return 0;
    return sum / count + beyond / (beyond + much * count);
}

int64_t longest_noise(const InstanceSample& sample, int64_t from, int64_t upto) {
    int64_t most = 0;
    for (const auto& pieces : sample.noise) {
        int64_t sum = 0;
        for (const NoisePiece& piece : pieces) sum += std::max<int64_t>(0, std::min(piece.end, upto) - std::max(piece.begin, from));
        most = std::max(most, sum);
    }
    return most;
}

Evidence evidence(const std::vector<InstanceSample>& samples) {
    const size_t leave_times = samples.empty() ? 0 : samples.size() * samples.front().leave.size();
    return leave_times < 12 ? Evidence::few : leave_times < 24 ? Evidence::little : Evidence::enough;
}

namespace {

// Of non-blocking ones: the least that the completing call of a member took that waits for nobody by the operation, without its noise. That
// much every call takes, unless that member's messages waited for their receivers. 0 where all wait.
int64_t least_completion(const std::vector<InstanceSample>& samples, Waits waits) {
    const auto free = [&](const InstanceSample& sample, size_t member) {
        if (waits == Waits::prefix) return member == 0;
        return (waits == Waits::one_to_n && member == sample.root) || (waits == Waits::n_to_one && member != sample.root);
    };
    int64_t least = INT64_MAX;
    for (const InstanceSample& sample : samples)
        for (size_t i = 0; i < sample.resume.size(); ++i) {
            if (!free(sample, i)) continue;
            int64_t took = sample.leave[i] - sample.resume[i];
            for (const NoisePiece& piece : sample.noise[i]) took -= std::max<int64_t>(0, piece.end - std::max(piece.begin, sample.resume[i]));
            least = std::min(least, took);
        }
    return least == INT64_MAX ? 0 : std::max<int64_t>(0, least);
}

// What the blocking calls take, in the order of that, of those who only send to the root.
std::vector<int64_t> lengths_of_sending(const std::vector<InstanceSample>& samples) {
    std::vector<int64_t> sending;
    for (const InstanceSample& sample : samples)
        for (size_t i = 0; i < sample.enter.size(); ++i)
            if (i != sample.root) sending.push_back(sample.leave[i] - sample.enter[i]);
    std::sort(sending.begin(), sending.end());
    return sending;
}

// What the call takes beside its messages, where the root found them all there: it takes each, and who sends one sends one.
std::optional<int64_t> call_and_messages(const std::vector<InstanceSample>& samples, const std::vector<int64_t>& sending) {
    const size_t others = samples.front().enter.size() - 1;
    if (sending.empty() || others < 2) return std::nullopt;
    std::vector<int64_t> taking;
    for (const InstanceSample& sample : samples) taking.push_back(sample.leave[sample.root] - sample.enter[sample.root]);
    std::sort(taking.begin(), taking.end());
    const int64_t sent = sending[sending.size() / 2], message = (taking[taking.size() / 4] - sent) / static_cast<int64_t>(others - 1);
    return message > 0 && message <= sent ? std::optional(sent - message) : std::nullopt;
}

// What a call may cost beside its messages. `known`: what messages cost elsewhere; what sending one usually takes longer is the call's.
std::vector<int64_t> costs_of_call(const std::vector<InstanceSample>& samples, const CollectiveKind& kind,
                                   const std::vector<Reference>& known) {
    std::set<int64_t> calls{0, least_completion(samples, kind.waits)};
    if (kind.waits == Waits::n_to_one && samples.front().resume.empty()) {
        const std::vector<int64_t> sending = lengths_of_sending(samples);
        if (const auto apart = call_and_messages(samples, sending)) calls.insert(*apart);
        for (const Reference& reference : known)
            if (!sending.empty()) calls.insert(std::max<int64_t>(0, sending[sending.size() / 2] - reference.structure.own));
    }
    return {calls.begin(), calls.end()};
}

// The ways in which a library may bring about the messages of an algorithm, without costs.
std::vector<Structure> protocols(const Pattern& pattern, const CollectiveKind& kind, uint32_t members,
                                 const std::vector<const BlockSizes*>& sizes, const std::vector<int64_t>& calls, bool share_links) {
    std::vector<Structure> list;
    for (const int64_t eager : eager_limits(pattern, kind, members, sizes))
        for (const int64_t call : calls) {
            Structure one{.pattern = pattern, .call = call, .eager_ppm = eager};
            list.push_back(one);
            one.link = true;
            if (kind.links_apart) continue;
            if (share_links || (one.any_rendezvous() && kind.scale() != CollectiveKind::unknown)) list.push_back(one);
        }
    return list;
}

// `look(structure, rival)`: its fit; from many times that error on it is not looked for the last of it. The algorithms that a library's
// rules name come first. Each process looks at those, so all of them know whether they say enough, and what the others, which are shared,
// have to beat.
template <class Look>
Nearest nearest_of(const std::vector<Candidate>& list, const CollectiveKind& kind, const std::vector<InstanceSample>& samples, size_t part,
                   size_t parts, double constant_error, const std::vector<int64_t>& calls, Look look) {
    const auto members = static_cast<uint32_t>(samples.front().enter.size());
    std::vector<const BlockSizes*> sizes;
    for (const InstanceSample& sample : samples)
        if (kind.by_member) sizes.push_back(&sample.sizes);
    Nearest best;
    uint32_t number = 0;
    bool by_rules = true;
    for (const Candidate& candidate : list) {
        if (by_rules && !candidate.decided) {
            // … or is right to a hundredth or so of the time that a message takes: of all others one would always come nearer.
            constexpr double exact = 80;
            const bool is_exact = std::isfinite(best.error) && best.error * exact <= static_cast<double>(best.structure.hop);
            if (best.error * enough_said <= constant_error || is_exact) return best;
            by_rules = false;
        }
        const bool share_links = long_enough_to_share(candidate.pattern, kind, members, sizes);
        for (const Structure& protocol : protocols(candidate.pattern, kind, members, sizes, calls, share_links)) {
            Nearest one{.candidate = number++};
            if (!by_rules && one.candidate % parts != part) continue;
            const Fit fit = look(protocol, by_rules ? std::numeric_limits<double>::infinity() : best.rule_error);
            one.structure = fit.structure;
            one.error = fit.error;
            one.decided = candidate.decided;
            constexpr double shared = 1.1;  // one cost more to choose
            const bool shares = protocol.link && !protocol.any_rendezvous();
            // Long messages that are under way at once and yet hardly disturb each other: no network does that.
            constexpr double unlikely = 1.5;
            constexpr int64_t hardly = 4;
            const bool apart = share_links && !protocol.link && one.structure.hop_data > hardly * one.structure.own_data;
            // 1: of several that are exact, the likeliest
            one.score = (one.error + 1) * candidate.handicap * (shares ? shared : 1) * (apart ? unlikely : 1);
            if (candidate.decided && one.score < best.rule_score) {
                best.rule_score = one.score;
                best.rule_error = one.error;
                best.rule = one.structure;
            }
            one.rule = best.rule;
            one.rule_error = best.rule_error;
            one.rule_score = best.rule_score;
            best.join(one);
        }
    }
    return best;
}

// `look(structure, samples, rival)`: a fit. Most algorithms are so far off that a part of the samples shows it.
template <class Look>
auto with_few_first(const std::vector<InstanceSample>& samples, Look look) {
    constexpr size_t least = 8, enough_leave_times = 24;
    constexpr double far_off = 1.5 * hopeless;  // a part says it less well
    const size_t members = samples.front().enter.size(), few = std::max(least, (enough_leave_times + members - 1) / members);
    std::vector<InstanceSample> part;
    if (samples.size() >= 2 * few)
        for (size_t i = 0; i < few; ++i) part.push_back(samples[i * samples.size() / few]);
    return [&samples, look, part = std::move(part)](const Structure& plain, double rival) {
        if (!part.empty() && std::isfinite(rival))
            if (const Fit rough = look(plain, part, rival); rough.error > far_off * rival) return rough;
        return look(plain, samples, rival);
    };
}

}  // namespace

Structure with_costs(Structure structure, const Reference& known, uint64_t data) {
    const bool sized = known.data != CollectiveKind::unknown && data != CollectiveKind::unknown && known.data > 0;
    const double ratio = sized ? static_cast<double>(data) / static_cast<double>(known.data) : 1;
    structure.own = known.structure.own;
    structure.hop = known.structure.hop;
    structure.own_data = std::llround(static_cast<double>(known.structure.own_data) * ratio);
    structure.hop_data = std::llround(static_cast<double>(known.structure.hop_data) * ratio);
    return structure;
}

Nearest nearest(const std::vector<InstanceSample>& samples, const CollectiveKind& kind, Library library, bool noise_known, size_t part,
                size_t parts) {
    constexpr size_t least = 3;  // leave times
    if (samples.empty() || samples.size() * samples.front().leave.size() < least) return {};
    const auto members = static_cast<uint32_t>(samples.front().enter.size());
    std::vector<Candidate> list = candidates(kind, members, library);
    if (evidence(samples) == Evidence::few) std::erase_if(list, [](const Candidate& candidate) { return !candidate.decided; });
    const double constant_error = plain_error(samples, kind.waits, noise_known);
    return nearest_of(list, kind, samples, part, parts, constant_error, costs_of_call(samples, kind, {}),
                      with_few_first(samples, [&](const Structure& plain, const std::vector<InstanceSample>& of, double rival) {
                          return fit(plain, of, noise_known, constant_error, rival, !kind.usual_calls_tell);
                      }));
}

Nearest borrow(const std::vector<InstanceSample>& samples, const CollectiveKind& kind, Library library, bool noise_known,
               const std::vector<Reference>& known, size_t part, size_t parts) {
    if (samples.empty() || known.empty()) return {};
    const bool weak = evidence(samples) != Evidence::enough || samples.size() == 1;
    const double range = weak ? 2 : 1000;
    const auto members = static_cast<uint32_t>(samples.front().enter.size());
    const double constant_error = plain_error(samples, kind.waits, noise_known);
    const auto look = [&](const Structure& plain, const std::vector<InstanceSample>& of, double) {
        std::vector<Structure> starts;
        for (const Reference& reference : known) {
            starts.push_back(with_costs(plain, reference, kind.scale()));
            if (weak && plain.link && plain.any_rendezvous()) starts.push_back(limited_by_link(starts.back(), of));
        }
        return fit_from(starts, of, noise_known, range, constant_error);
    };
    const std::vector<int64_t> calls = costs_of_call(samples, kind, known);
    return nearest_of(candidates(kind, members, library), kind, samples, part, parts, constant_error, calls, with_few_first(samples, look));
}

// In bytes; 0 where it is not known.
static double longest_message(const Pattern& pattern, const std::vector<InstanceSample>& samples, const CollectiveKind& kind) {
    if (kind.scale() == CollectiveKind::unknown) return 0;
    double longest = 0;
    for (const InstanceSample& sample : samples) {
        const Schedule& of = schedule(pattern, static_cast<uint32_t>(sample.enter.size()), sample.root, false);
        for (uint32_t message = 0; message < of.shares.size(); ++message) longest = std::max(longest, sample.sizes.share(of, message));
    }
    return longest * static_cast<double>(kind.scale());
}

void InstanceSample::forget_places() {
    for (size_t i = 0; i < noise.size(); ++i)
        for (const NoisePiece& piece : noise[i]) unplaced += std::max<int64_t>(0, piece.end - std::max(piece.begin, enter[i]));
    noise.assign(enter.size(), {});
}

std::optional<Structure> hidden_by_noise(const std::vector<InstanceSample>& samples, const CollectiveKind& kind, Library library,
                                         const std::vector<Reference>& known, const std::optional<Structure>& fitted) {
    constexpr double tie = 64, exact = 40, most_bytes = 2048;
    constexpr int64_t part_open = 32;  // of what they take by known costs
    const auto hit = [](const InstanceSample& sample) { return sample.unplaced > 0; };
    if (samples.empty() || known.empty() || !std::all_of(samples.begin(), samples.end(), hit)) return std::nullopt;
    const auto members = static_cast<uint32_t>(samples.front().enter.size());
    std::vector<Candidate> list = candidates(kind, members, library);
    const auto decided = [](const Candidate& candidate) { return candidate.decided; };
    if (std::any_of(list.begin(), list.end(), decided)) std::erase_if(list, std::not_fn(decided));
    // What data costs is known less well.
    const auto too_long = [&](const Structure& structure) { return longest_message(structure.pattern, samples, kind) > most_bytes; };
    if (fitted && too_long(*fitted)) return std::nullopt;
    struct Seen {
        double contradiction = 0, longer = 0, took = 0;  // ns of a member on average; took: by the structure
    };
    std::vector<Prediction> predicted;
    const auto see = [&](const Structure& structure) {
        Seen seen;
        for (const InstanceSample& sample : samples) {
            predict(structure, sample, &predicted, false);
            for (size_t i = 0; i < predicted.size(); ++i) {
                const int64_t longer = sample.leave[i] - predicted[i].leave;
                seen.contradiction += static_cast<double>(std::max({int64_t{0}, -longer, longer - sample.unplaced}));
                seen.longer += static_cast<double>(std::abs(longer));
                seen.took += static_cast<double>(predicted[i].leave - sample.enter[i]);
            }
        }
        const auto leave_times = static_cast<double>(samples.size() * members);
        return Seen{seen.contradiction / leave_times, seen.longer / leave_times, seen.took / leave_times};
    };
    const auto look = [&](const Structure& plain, double) {
        Fit best{plain, std::numeric_limits<double>::infinity()};
        if (too_long(plain)) return best;
        for (const Reference& reference : known) {
            const Structure structure = with_costs(plain, reference, kind.scale());
            const Seen seen = see(structure);
            if (const double error = seen.contradiction + seen.longer / tie; error < best.error) best = {structure, error};
        }
        return best;
    };
    const Nearest found = nearest_of(list, kind, samples, 0, 1, 0, costs_of_call(samples, kind, known), look);
    if (!std::isfinite(found.error)) return std::nullopt;
    const Seen seen = see(found.structure);
    if (seen.contradiction * exact > static_cast<double>(found.structure.hop)) return std::nullopt;
    Structure structure = found.structure;
    structure.error = static_cast<int64_t>(seen.took) / part_open;
    return structure;
}

std::optional<Structure> apart_from_call(const Structure& found, const std::vector<InstanceSample>& samples, int64_t own) {
    constexpr int64_t little_ns = 20;
    const Shape up = found.pattern.up;
    const bool straight =
        up == Shape::linear || up == Shape::linear_in_order || up == Shape::linear_ascending || up == Shape::linear_descending;
    if (!straight || found.pattern.down != Shape::none || found.any_rendezvous() || samples.empty()) return std::nullopt;
    const std::vector<int64_t> sending = lengths_of_sending(samples);
    if (sending.empty()) return std::nullopt;
    const int64_t usual = sending[sending.size() / 2];
    if (own <= 0 || 10 * own >= 9 * usual) return std::nullopt;
    Structure apart = found;
    apart.own = own;
    apart.hop += found.own - own;  // so what a single message takes from its sender to the root stays
    if (10 * sending[sending.size() / 4] >= 9 * usual) {  // the lengths matter little
        apart.own_data = 0;
        apart.hop_data += found.own_data;
    }
    const auto part = 1.0 / static_cast<double>(samples.front().enter.size());
    apart.call = std::max<int64_t>(0, usual - own - apart.by_length(part));
    double was = 0, is = 0;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples)
        for (const auto& [structure, sum] : {std::pair{&found, &was}, std::pair{static_cast<const Structure*>(&apart), &is}}) {
            predict(*structure, sample, &predicted, false);
            for (size_t i = 0; i < predicted.size(); ++i) *sum += std::abs(static_cast<double>(predicted[i].leave - sample.leave[i]));
        }
    const auto leave_times = static_cast<double>(samples.size() * samples.front().leave.size());
    if (is > 1.1 * was + little_ns * leave_times) return std::nullopt;
    return apart;
}

// Whether a message of an algorithm by its own costs takes about as long as those of other collectives say: then these confirm it.
static bool alike(const Structure& own, const Structure& borrowed) {
    const auto whole = [](const Structure& costs) { return costs.work(1) + costs.flight(1); };
    return whole(own) <= 2 * whole(borrowed) && whole(borrowed) <= 2 * whole(own);
}

// Where only the root waits, and once, a constant meets the one leave time that says something, whatever that is. Then an algorithm that an
// MPI is known to use is believed if it meets all leave times by costs known from elsewhere, nearly.
static bool meets_only_wait(const std::vector<InstanceSample>& samples, Waits waits, const Nearest& borrowed) {
    constexpr int64_t one_of = 20;
    if (waits != Waits::n_to_one || samples.size() != 1 || !borrowed.decided || !std::isfinite(borrowed.error)) return false;
    const InstanceSample& sample = samples.front();
    if (sample.root >= sample.leave.size() || sample.leave.size() < 4) return false;
    int64_t came = INT64_MIN;
    for (size_t i = 0; i < sample.enter.size(); ++i)
        if (i != sample.root) came = std::max(came, sample.enter[i]);
    const auto waited = static_cast<double>(sample.leave[sample.root] - came);
    return borrowed.error * static_cast<double>(sample.leave.size() * one_of) <= waited;
}

// Where the calls found all their messages there, a constant meets them, and any flight that is short enough does. Without the noise they
// may wait: then known costs tell for how long.
static bool never_waited(const std::vector<InstanceSample>& samples, const Nearest& borrowed, double constant_error) {
    constexpr double much_less = 50;  // than a message is under way
    constexpr size_t seldom = 16;     // one leave time of so many
    const double flight = static_cast<double>(borrowed.structure.hop) / much_less;
    if (!std::isfinite(borrowed.error) || constant_error > flight || borrowed.error > flight) return false;
    size_t waited = 0, all = 0;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples) {
        predict(borrowed.structure, sample, &predicted);
        all += predicted.size();
        waited += static_cast<size_t>(std::count_if(predicted.begin(), predicted.end(), [](const auto& one) { return one.hops > 0; }));
    }
    return waited * seldom <= all;
}

// How far the values are from the one in the middle, in the mean.
static double distance_from_median(std::vector<int64_t> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    double sum = 0;
    for (const int64_t value : values) sum += std::abs(static_cast<double>(value - *middle));
    return sum / static_cast<double>(values.size());
}

// Where the root alone waits, many others that send in no time hide what its leave times say. These alone, whatever its call costs: an
// algorithm that an MPI is known to use is believed if it explains them far better than a constant does, and the others not much worse,
// whatever the call costs each of these.
static bool explains_roots(const std::vector<InstanceSample>& samples, Waits waits, const Nearest& chosen, double constant_error) {
    constexpr double far_better = 5, not_much_worse = 2;
    if (waits != Waits::n_to_one || !chosen.decided) return false;
    std::vector<int64_t> by_constant, by_structure, others;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples) {
        if (sample.root >= sample.leave.size() || !sample.resume.empty()) return false;
        const int64_t leave = sample.leave[sample.root];
        predict(chosen.structure, sample, &predicted, false);
        by_structure.push_back(leave - predicted[sample.root].leave);
        by_constant.push_back(leave - *std::max_element(sample.enter.begin(), sample.enter.end()));
        for (size_t i = 0; i < predicted.size(); ++i)
            if (i != sample.root) others.push_back(sample.leave[i] - predicted[i].leave);
    }
    if (others.empty() || distance_from_median(others) > not_much_worse * constant_error) return false;
    return distance_from_median(by_structure) * far_better < distance_from_median(by_constant);
}

// Of the distances: as `typical` has it of those of one kind.
static int64_t typical_of_roots(std::vector<int64_t> distances, bool noise_known) {
    Distances only{.roots = std::move(distances), .others = {}};
    return static_cast<int64_t>(typical(only, noise_known));
}

// How far roots leave from where the structure has it.
static int64_t root_distance(const Structure& structure, const std::vector<InstanceSample>& samples, bool noise_known) {
    std::vector<int64_t> distances;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples) {
        if (sample.root >= sample.leave.size()) continue;
        predict(structure, sample, &predicted, false);
        distances.push_back(std::abs(sample.leave[sample.root] - predicted[sample.root].leave));
    }
    return typical_of_roots(std::move(distances), noise_known);
}

// … and from a constant after the last.
static int64_t root_distance_from_constant(const std::vector<InstanceSample>& samples, bool noise_known) {
    std::vector<int64_t> took;
    for (const InstanceSample& sample : samples) {
        if (sample.root >= sample.leave.size()) continue;
        int64_t from = *std::max_element(sample.enter.begin(), sample.enter.end());
        if (!sample.resume.empty()) from = std::max(from, sample.resume[sample.root]);
        took.push_back(sample.leave[sample.root] - from);
        for (const NoisePiece& piece : sample.noise[sample.root])
            took.back() -= std::max<int64_t>(0, piece.end - std::max(piece.begin, from));
    }
    if (took.empty()) return 0;
    std::vector<int64_t> sorted = took;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    for (int64_t& one : took) one = std::abs(one - sorted[sorted.size() / 2]);
    return typical_of_roots(std::move(took), noise_known);
}

Explanation explain(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known, const Nearest& best,
                    const Nearest& borrowed) {
    Explanation explanation;
    if (samples.empty()) return explanation;
    explanation.constant_error = plain_error(samples, waits, noise_known);
    if (waits == Waits::n_to_one) explanation.constant_root_error = root_distance_from_constant(samples, noise_known);
    const Evidence said = evidence(samples);
    const bool weak = said != Evidence::enough || samples.size() == 1;
    // Of many patterns one is always a little better than none of them: only one that leaves clearly less than a constant does. (Where
    // messages share links no pattern explains most, and yet noise is not spread as a constant has it.) Few leave times say little of
    // costs; those of other collectives, or an algorithm that an MPI is known to use, make up for it.
    double left = 0.9;
    if (said == Evidence::little) left = best.decided ? 0.05 : 0.02;
    // As many leave times as there are costs fit any algorithm, and few members hardly show which one it is.
    constexpr size_t more_than_costs = 6, enough_members = 4;
    const size_t members = samples.front().leave.size();
    const bool tells = members >= enough_members && samples.size() * members >= more_than_costs;
    if (said == Evidence::few) left = best.decided && tells ? 0.2 : 0.1;
    Nearest chosen = best;
    constexpr double left_by_borrowed = 0.1;
    const bool never = !weak && never_waited(samples, borrowed, explanation.constant_error);
    if (!std::isfinite(borrowed.error)) {
        // Nobody to borrow from.
    } else if (!weak) {
        if (never || borrowed.score < best.score) chosen = borrowed;
    } else if (borrowed.decided && borrowed.score <= best.score) {  // known costs meet the leave times better than costs fitted to them
        chosen = borrowed;
    } else if (!best.decided ||
               borrowed.error < explanation.constant_error * left_by_borrowed) {  // else the library's rule by its own costs
        left = left_by_borrowed;
        const bool rule_meets = borrowed.rule_error < explanation.constant_error * left_by_borrowed;
        const bool confirmed =
            alike(best.structure, borrowed.structure) || (best.decided && rule_meets && alike(best.structure, borrowed.rule));
        if (borrowed.score <= best.score || !confirmed) chosen = borrowed;
    } else if (borrowed.structure.pattern == best.structure.pattern && alike(best.structure, borrowed.structure)) {
        left = std::max(left, left_by_borrowed);  // known costs name the same algorithm, though they meet the leave times less well
    }
    const bool only_wait = meets_only_wait(samples, waits, borrowed);
    if (only_wait) chosen = borrowed;
    if (!std::isfinite(chosen.error)) return explanation;
    Structure structure = chosen.structure;
    structure.certain = said != Evidence::few && chosen.error * 10 <= explanation.constant_error;
    // Costs fitted to few leave times meet these better than others.
    if (weak) structure.error = std::max(structure.error, structure.own / 16);
    if (waits == Waits::n_to_one) structure.root_error = root_distance(structure, samples, noise_known);
    const bool roots = !weak && explains_roots(samples, waits, chosen, explanation.constant_error);
    if (only_wait || never || roots || chosen.error < explanation.constant_error * left)
        explanation.found = structure;
    else if (!weak)
        explanation.likeliest = structure;
    return explanation;
}

}  // namespace polter::replay
