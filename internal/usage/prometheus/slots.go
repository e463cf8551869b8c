package prometheus

import (
	"context"
	"hash/fnv"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

// slotParts is the number of parts that workloads are folded in, since slots take some hundred KiB each.
const slotParts = 8

// Slots folds the days before one into the histories and slots of whole pods, and hands them to each,
// workload by workload. It keeps a part of them at a time.
func (rec *Record) Slots(ctx context.Context, before int64, name Namer, each func(workload string, h *usage.History, s *usage.Slots)) error {
	for part := range uint32(slotParts) {
		histories, slots := folded(map[string]*usage.History{}), map[string]*usage.Slots{}
		for _, n := range rec.Days {
			if n >= before {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			d, err := readDay(rec.path(n), n, func(d *Day, pod Pod) bool {
				workload := name(d, pod)
				return workload != "" && partOf(workload) == part
			})
			if err != nil {
				return err
			}
			d.bound(rec.Most)
			for pods := d.Containers; len(pods) > 0; {
				one := pods[:d.containersOf(pods)]
				pods = pods[len(one):]
				workload := name(d, one[0].Pod)
				whole, err := rec.wholeOf(d, one)
				if err != nil {
					return err
				}
				if err := histories.add(workload, d, &whole.Container); err != nil {
					return err
				}
				if slots[workload] == nil {
					slots[workload] = &usage.Slots{}
				}
				for i, v := range whole.CPU {
					if v == v { // add has checked it
						_ = slots[workload].AddCPU(float64(d.Begin().Unix())+float64(i)*Step.Seconds(), Step.Seconds(), float64(v))
					}
				}
			}
			histories.endDay()
		}
		for workload, h := range histories.histories {
			each(workload, h, slots[workload])
		}
	}
	return nil
}

func partOf(workload string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workload))
	return h.Sum32() % slotParts
}
