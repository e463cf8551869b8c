package prometheus

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

// maxSkew is the largest difference between the clock of a server and that of its client.
const maxSkew = time.Minute

// A Latest is the use of the containers of each pod in the five minutes before a time. A container without a sample,
// or with one that is no use of a container, has none.
type Latest map[Pod]map[string]usage.Amounts

// ReadLatest reads the use of the two windows of five minutes that end five minutes before now, and now. A server with
// series of several clusters is a [MixedError]; one with a clock of its own, or with a part of the data, is an error.
func ReadLatest(ctx context.Context, address string, now time.Time) (windows [2]Latest, err error) {
	s, err := newServer(address)
	if err != nil {
		return windows, err
	}
	counts, err := s.at(ctx, fmt.Sprintf(clustersQuery, strings.Join(clusterLabels, ", "), selector("")), time.Time{})
	if err != nil {
		return windows, err
	}
	if len(counts) == 0 {
		return windows, fmt.Errorf("%s: %w", s.name, ErrEmpty)
	}
	for _, c := range counts {
		for _, label := range clusterLabels {
			if a, b := counts[0].Metric[model.LabelName(label)], c.Metric[model.LabelName(label)]; a != b {
				return windows, &MixedError{s.name, label, []string{string(a), string(b)}}
			}
		}
		if skew := c.Timestamp.Time().Sub(now); skew.Abs() > maxSkew {
			return windows, fmt.Errorf("%s: its clock differs by %v", s.name, skew.Round(time.Second))
		}
	}
	for i := range windows {
		at := now.Add(time.Duration(i-1) * Step)
		cpu, err := s.at(ctx, fmt.Sprintf(cpuQuery, selector("")), at)
		if err != nil {
			return windows, err
		}
		memory, err := s.at(ctx, fmt.Sprintf(memoryQuery, selector("")), at)
		if err != nil {
			return windows, err
		}
		windows[i] = join(cpu, memory)
	}
	return windows, nil
}

// join has the containers with a sample of both.
func join(cpu, memory model.Vector) Latest {
	cores, all := map[containerName]float64{}, Latest{}
	for _, s := range cpu {
		cores[nameOf(s.Metric)] = float64(s.Value)
	}
	for _, s := range memory {
		name := nameOf(s.Metric)
		used, ok := cores[name]
		if m := float64(s.Value); ok && plausible(used) && plausible(m) {
			if all[name.Pod] == nil {
				all[name.Pod] = map[string]usage.Amounts{}
			}
			all[name.Pod][name.name] = usage.Amounts{CPU: math.Abs(used), Memory: math.Abs(m)} // no negative zero
		}
	}
	return all
}

// plausible reports whether an amount is finite, and not negative.
func plausible(v float64) bool { return v >= 0 && v <= unbounded }

// Plausible reports whether pods can have used some amounts on a node that has most.
func Plausible(used, most usage.Amounts) bool {
	return used.CPU <= beyond*most.CPU && used.Memory <= beyond*most.Memory
}
