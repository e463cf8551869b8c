package usage

import (
	"fmt"
	"math"
)

// How an effective size follows from a history. Lower quantiles and estimates of a
// node's sum need fewer nodes on the days that they are fitted to, and exceed capacity 10
// to 500 times as often on later ones. The mean pod counts, since a node has pods of many workloads, whose sum
// varies as means do; one pod counts, since a node has few of each (docs/requests-and-use.md).
const (
	Quantile    = .99  // of cpu
	MemoryShare = 1.15 // of the memory peak
	LeastDays   = 14   // of history
	FloorCPU    = .01  // cores
	FloorMemory = 32 << 20
)

// A Reason is the origin of an effective size.
type Reason string

// The reasons of a size.
const (
	ByUse     Reason = "use"
	AtFloor   Reason = "floor"
	Above     Reason = "use above the request"
	AtRequest Reason = "request: use is near it"
	NoRequest Reason = "the most so far: no request"
	Short     Reason = "request: too few days of history"
	Job       Reason = "request: a Job"
	NoMetrics Reason = "request: no metrics"
)

// ByRequest reports whether the size is the request for lack of a history that counts.
func (r Reason) ByRequest() bool { return r == Short || r == Job || r == NoMetrics }

// Amounts are cores and bytes.
type Amounts struct{ CPU, Memory float64 }

// A Size is the effective size of one pod of a workload, with the origin of each part.
type Size struct {
	Amounts
	CPUReason, MemoryReason Reason
	Days, MemoryDays        int     // of history
	Coverage                float64 // see [History.Coverage]
}

// Above reports whether the workload uses more than it requests.
func (s *Size) Above() bool { return s.CPUReason == Above || s.MemoryReason == Above }

// ByRequest is the reason why the pod, or one of its resources, counts by request for lack of a
// history that counts; empty if none does.
func (s *Size) ByRequest() string {
	cpu, memory := s.CPUReason.ByRequest(), s.MemoryReason.ByRequest()
	switch {
	case cpu && memory && s.CPUReason == s.MemoryReason:
		return string(s.CPUReason)
	case cpu && memory:
		return "cpu by " + string(s.CPUReason) + ", memory by " + string(s.MemoryReason)
	case cpu:
		return "cpu by " + string(s.CPUReason)
	case memory:
		return "memory by " + string(s.MemoryReason)
	}
	return ""
}

// Largest is a size of pods of several workloads that count alike: the largest of each part.
func Largest(sizes []Size) Size {
	most := sizes[0]
	for _, s := range sizes[1:] {
		if s.CPU > most.CPU || s.CPU == most.CPU && s.CPUReason.ByRequest() {
			most.CPU, most.CPUReason = s.CPU, s.CPUReason
		}
		if s.Memory > most.Memory || s.Memory == most.Memory && s.MemoryReason.ByRequest() {
			most.Memory, most.MemoryReason = s.Memory, s.MemoryReason
		}
		most.Days, most.MemoryDays, most.Coverage = min(most.Days, s.Days), min(most.MemoryDays, s.MemoryDays), min(most.Coverage, s.Coverage)
	}
	return most
}

// String explains the size.
func (s *Size) String() string {
	days := fmt.Sprintf("%d days", s.Days)
	if s.MemoryDays != s.Days {
		days += fmt.Sprintf(" of cpu, %d of memory", s.MemoryDays)
	}
	return fmt.Sprintf("cpu %.3g (%s), memory %.4g Mi (%s), %s, %.0f %% covered", s.CPU, s.CPUReason, s.Memory/(1<<20), s.MemoryReason, days, 100*s.Coverage)
}

// SizeOf returns the effective size of a workload's pod at a time: [History.CPU] and the memory peak × 1.15, each at least the floor and at most the
// request, unless use itself is above the request. With fewer days of history than leastDays
// ([LeastDays], unless the data have fewer), each resource by its own, it is the request.
// Nothing bounds a workload without a request, so it counts at the most that it used in the
// window, whatever the length of its history. A nil history has no metrics.
func SizeOf(h *History, request Amounts, job bool, leastDays int, at float64) Size {
	if h == nil {
		return (&Summary{}).Size(request, job, leastDays)
	}
	s := h.summary(at, request.CPU == 0)
	return s.Size(request, job, leastDays)
}

// A Summary is the part of a history that its sizes at one time depend on. The zero value has no
// metrics.
type Summary struct {
	Days, MemoryDays int
	Coverage         float64
	cpu, one, most   float64 // see [History.CPU], the quantile of one pod, and the most
	peak             float64 // of memory
	seen, measured   bool    // there is a sample of cpu, and of memory
}

// Summary returns the summary of the history at a time.
func (h *History) Summary(at float64) Summary { return h.summary(at, true) }

func (h *History) summary(at float64, most bool) (s Summary) {
	s.Days, s.MemoryDays = h.Days(at)
	s.Coverage, s.seen = h.Coverage(at), !h.pods.empty()
	s.cpu, s.one = h.cpu(at)
	if most && s.seen {
		s.most = h.Busiest(1, at)
	}
	s.peak, s.measured = h.MemoryPeak(at)
	return s
}

// Size returns the size as [SizeOf] does.
func (h *Summary) Size(request Amounts, job bool, leastDays int) Size {
	s := Size{Amounts: request, Days: h.Days, MemoryDays: h.MemoryDays, Coverage: h.Coverage}
	because := func(days int) Reason {
		switch {
		case job:
			return Job
		case days >= max(1, leastDays):
			return ""
		case days > 0:
			return Short
		}
		return NoMetrics
	}
	s.CPUReason, s.MemoryReason = because(s.Days), because(s.MemoryDays)
	switch {
	case request.CPU == 0 && h.seen:
		s.CPU, s.CPUReason = math.Max(h.most, FloorCPU), NoRequest
	case s.CPUReason == "":
		s.CPU, s.CPUReason = within(h.cpu, h.one/growth, FloorCPU, request.CPU)
	}
	switch {
	case request.Memory == 0 && h.measured:
		s.Memory, s.MemoryReason = math.Max(MemoryShare*h.peak, FloorMemory), NoRequest
	case s.MemoryReason == "":
		s.Memory, s.MemoryReason = within(MemoryShare*h.peak, h.peak, FloorMemory, request.Memory)
	}
	return s
}

// within keeps a size between floor and request. used is the use of one pod without any margin: where it is above the
// request, the size is at least that.
func within(size, used, floor, request float64) (float64, Reason) {
	switch {
	case used > request:
		return max(size, floor, request), Above
	case size >= request:
		return request, AtRequest
	case size < floor:
		return math.Min(floor, request), AtFloor
	}
	return size, ByUse
}
