// SPDX-License-Identifier: BSD-3-Clause
// The virtual ranks: which measured rank each is a copy of, where its messages go, and who takes part in its collectives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pattern.hpp"

namespace polter::prediction {

// Communicators of the program whose members are all ranks, or rows, planes and the like of the grid: as many as a rank has of them.
struct CommunicatorClass {
    std::array<bool, most_dimensions> spans{};  // the dimensions in which the members differ
    uint32_t ordinal = 0;                       // among those of a rank that span the same
};

class Layout {
  public:
    // `irregular`: why the program cannot be extended; empty: it can.
    Layout(const replay::Programs&, const Pattern&, const Grid& extended, std::string* irregular);

    int32_t ranks() const { return static_cast<int32_t>(parents_.size()); }
    int32_t parent(int32_t rank) const { return parents_[static_cast<size_t>(rank)]; }
    const Grid& grid() const { return grid_; }

    // Of a rank's link: the queue of its messages. Each has one sender and one receiver.
    uint32_t queue(int32_t rank, uint32_t link) const { return queues_[first_link_[static_cast<size_t>(rank)] + link]; }
    uint32_t queues() const { return queue_count_; }
    size_t first_link(int32_t rank) const { return first_link_[static_cast<size_t>(rank)]; }
    size_t links() const { return queues_.size(); }

    // The communicator that stands in the place of the parent's: an instance of its class, its members, and the rank's place among them.
    struct Place {
        uint32_t instance = 0, members = 0, member = 0;
    };
    Place place(int32_t rank, uint32_t communicator) const;
    int32_t member(const Place&, uint32_t communicator, int32_t rank, uint32_t number) const;  // world rank
    uint32_t root(uint32_t communicator, uint32_t measured) const;  // the member that stands for this one
    uint32_t instances() const { return instances_; }

  private:
    int32_t parent_of(const Pattern&, const Point&) const;
    std::string classify(const replay::Programs&);
    std::string connect(const replay::Programs&);
    Point extent(const CommunicatorClass&, const Grid&) const;

    Grid measured_, grid_;
    std::vector<int32_t> parents_;
    std::vector<size_t> first_link_;
    std::vector<uint32_t> queues_;
    uint32_t queue_count_ = 0, instances_ = 0;
    std::vector<CommunicatorClass> classes_;
    std::vector<uint32_t> first_instance_;         // by class
    std::map<uint32_t, uint32_t> class_of_;        // by communicator
};

}  // namespace polter::prediction
