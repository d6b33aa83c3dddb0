#include "nn/halo_layer.hpp"

#include <algorithm>

#include "kernels/box.hpp"
#include "support/trace.hpp"
#include "window/group_window.hpp"

namespace halograd {
namespace {

class HaloLayer : public LayerOf<HaloLayer> {
 public:
  HaloLayer(Space& space, const Shape& shape, const HaloBoxes& boxes)
      : space_(space), shape_(shape), boxes_(boxes), own_(boxes.own[space.rank()]), needs_(boxes.needs[space.rank()]) {}

  [[nodiscard]] Shape output_shape() const override { return part_of(shape_, needs_); }
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType type) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    if (all_hold_their_own()) {
      needs.hands_on = true;
      needs.mask = Mask::sum;  // its output tells as well as its input where that was positive
      needs.backward_reads_output = true;
      if (largest_batch == 1)
        needs.input_in_output = place_of_own(with_value_type(type, [](auto v) { return sizeof(v); }));
    }
    if (!runs_on_host) {
      long values = 0;
      for (int other = 0; other < space_.ranks(); ++other) {
        values += edge(space_.rank(), other).pixels() + edge(other, space_.rank()).pixels();
      }
      const std::size_t size = with_value_type(type, [](auto value) { return sizeof(value); });
      needs.workspace_bytes = static_cast<std::size_t>(values * largest_batch * shape_.channels) * size +
                              sizeof(float) * 2 * static_cast<std::size_t>(space_.ranks());
    }
    return needs;
  }

  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const trace::Span span("edges", "comm");
    const BoxValues<const T> x{call.x<T>(0), own_};
    const BoxValues<T> y{call.y<T>(), needs_};
    Messages<T> messages(*this, exec, call);
    for (int other = 0; other < space_.ranks(); ++other) messages.write(other, edge(space_.rank(), other), x);
    messages.send();
    if (!lies_in(x.values, y.values)) copy_box<T>(exec, call.batch, shape_.channels, own_.common(needs_), x, y, false);
    for (int other = 0; other < space_.ranks(); ++other) messages.take(other, edge(other, space_.rank()), y, false, {});
    messages.release();
  }

  /// A rank's gradient is the sum of those of all that have read its values.
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    const trace::Span span("edges", "comm");
    const BoxValues<const T> dy{call.dy<T>(), needs_};
    const BoxValues<T> dx{call.dx<T>(0), own_};
    const BoxValues<const T> mask = call.mask ? BoxValues<const T>{call.y<T>(), needs_} : BoxValues<const T>{};
    Messages<T> messages(*this, exec, call);
    for (int other = 0; other < space_.ranks(); ++other) messages.write(other, edge(other, space_.rank()), dy);
    messages.send();
    if (!call.accumulate[0] && !needs_.holds(own_)) Kokkos::deep_copy(exec, dx.values, T(0));
    if (call.mask || !lies_in(dx.values, dy.values)) {
      copy_box<T>(exec, call.batch, shape_.channels, own_.common(needs_), dy, dx, call.accumulate[0], mask);
    }
    for (int other = 0; other < space_.ranks(); ++other) {
      messages.take(other, edge(space_.rank(), other), dx, true, mask);
    }
    messages.release();
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& /*part*/) const override {
    return std::make_unique<HaloLayer>(*this);  // it is a part already
  }

  /// Where not empty: what rank `from` has and rank `to` needs.
  [[nodiscard]] Box edge(int from, int to) const {
    if (!boxes_.divided || from == to) return {{0, 0, 0}, {0, 0, 0}};
    return boxes_.own[from].common(boxes_.needs[to]);
  }

 private:
  /// Whether all ranks read all of what they have. What the layers before and behind then do with gradients, they do on
  /// all ranks alike.
  [[nodiscard]] bool all_hold_their_own() const {
    return std::equal(boxes_.needs.begin(), boxes_.needs.end(), boxes_.own.begin(),
                      [](const Box& needs, const Box& own) { return needs.holds(own); });
  }
  /// The byte of the output from which this rank's own pixels lie in it without a gap, as those of one image do where
  /// edges lie on both sides of its first axis alone; -1: nowhere.
  [[nodiscard]] long place_of_own(std::size_t value_bytes) const {
    int axis = 0;
    while (axis < 2 && needs_.extents()[axis] == 1) ++axis;
    long bytes = static_cast<long>(value_bytes) * shape_.channels;
    for (int inner = axis + 1; inner < 3; ++inner) {
      if (needs_.begin[inner] != own_.begin[inner] || needs_.end[inner] != own_.end[inner]) return -1;
      bytes *= needs_.extents()[inner];
    }
    return bytes * (own_.begin[axis] - needs_.begin[axis]);
  }
  template <class Inner, class Outer>
  [[nodiscard]] static bool lies_in(const Inner& inner, const Outer& outer) {
    return inner.data() >= outer.data() && inner.data() < outer.data() + outer.size();
  }

  /// The messages of one exchange, each the values of a box. Kernels write and read them in place on a host; on a
  /// device they are copied by way of the workspace.
  template <class T>
  class Messages {
   public:
    Messages(const HaloLayer& layer, const ExecutionSpace& exec, const LayerCall& call)
        : layer_(layer), window_(layer.space_.window()), exec_(exec), call_(call) {}

    void write(int to, const Box& box, const BoxValues<const T>& from) {
      if (box.empty()) return;
      const HostVector<float> room = window_.room(to, layer_.floats(box, call_.batch, sizeof(T)));
      float* const here = place(room);
      copy_box<T>(exec_, call_.batch, layer_.shape_.channels, box, from, {values<T>(here, box), box}, false);
      if constexpr (!runs_on_host) Kokkos::deep_copy(exec_, room, Vector<float>(here, room.extent(0)));
      to_.push_back(to);
    }
    void send() {
      exec_.fence();
      for (const int to : to_) window_.post(to);
      window_.flush();
    }
    void take(int from, const Box& box, const BoxValues<T>& to, bool add, const BoxValues<const T>& mask) {
      if (box.empty()) return;
      const HostVector<const float> message = window_.receive(from, layer_.floats(box, call_.batch, sizeof(T)));
      auto* const here = place(message);
      if constexpr (!runs_on_host) Kokkos::deep_copy(exec_, Vector<float>(here, message.extent(0)), message);
      copy_box<T>(exec_, call_.batch, layer_.shape_.channels, box, {values<const T>(here, box), box}, to, add, mask);
      from_.push_back(from);
    }
    void release() {
      exec_.fence();
      for (const int from : from_) window_.release(from);
    }

   private:
    /// Where kernels find a message: in itself, or as much of the workspace.
    template <class Message>
    auto place(const Message& message) {
      if constexpr (runs_on_host) {
        return message.data();
      } else {
        const std::size_t offset = used_;
        used_ += message.extent(0) * sizeof(float);
        return values_at<float>(call_.workspace, offset, message.extent(0)).data();
      }
    }
    template <class Value, class Float>
    Vector<Value> values(Float* at, const Box& box) const {
      return Vector<Value>(reinterpret_cast<Value*>(at),
                           static_cast<std::size_t>(box.pixels() * call_.batch * layer_.shape_.channels));
    }

    const HaloLayer& layer_;
    GroupWindow& window_;
    const ExecutionSpace& exec_;
    const LayerCall& call_;
    std::vector<int> to_, from_;
    std::size_t used_ = 0;
  };

 public:
  [[nodiscard]] std::size_t floats(const Box& box, int batch, std::size_t value_bytes) const {
    const auto bytes = static_cast<std::size_t>(box.pixels() * batch * shape_.channels) * value_bytes;
    return (bytes + sizeof(float) - 1) / sizeof(float);
  }

 private:
  Space& space_;
  Shape shape_;
  HaloBoxes boxes_;
  Box own_, needs_;
};

}  // namespace

std::unique_ptr<Layer> make_halo_layer(Space& space, const Shape& shape, const HaloBoxes& boxes, int largest_batch,
                                       ValueType type) {
  auto layer = std::make_unique<HaloLayer>(space, shape, boxes);
  const std::size_t size = with_value_type(type, [](auto value) { return sizeof(value); });
  for (int from = 0; from < space.ranks(); ++from) {
    for (int to = 0; to < space.ranks(); ++to) {
      const std::size_t floats = layer->floats(layer->edge(from, to), largest_batch, size);
      space.window().expect_message(from, to, floats);  // forward
      space.window().expect_message(to, from, floats);  // backward
    }
  }
  return layer;
}

}  // namespace halograd
