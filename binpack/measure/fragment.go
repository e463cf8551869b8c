package measure

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Fragment is the share of the free capacity of active machines, in the
// scarcest dimension, that an item drawn from the mix cannot use (after Weng et
// al., ATC 2023):
//
//	Σ_a mix[a] · free(active machines where a does not fit) ÷ (Σ_a mix[a] · free(active machines))
//
// mix[a] is the number of items of app a in the trace. An item fits where its
// demand is free in every dimension and its devices can be had; limits, rules,
// spread and types are ignored. The result is in [0, 1], 0 when nothing is free
// or the mix is empty.
func Fragment(s *binpack.State, mix []int64) float64 {
	d := Scarcest(s.Instance(), mix)
	if d < 0 {
		return 0
	}
	machines := roomyMachines(s, d)
	demands := groupDemands(s.Instance(), mix)
	if len(machines) == 0 || len(demands) == 0 {
		return 0
	}
	f := newFit(s, demands, machines)
	free := s.Free(d)
	var total wide
	for _, m := range machines {
		total.add(free[m])
	}
	lost, items := 0.0, int64(0)
	for i, demand := range demands {
		var unusable wide
		for w, word := range f.row(i) {
			for ; word != 0; word &= word - 1 {
				unusable.add(free[machines[w*64+bits.TrailingZeros64(word)]])
			}
		}
		lost += float64(float64(demand.count) * share(unusable, total))
		items += demand.count
	}
	return min(1, lost/float64(items))
}

// Scarcest is the dimension with the largest total demand ÷ total capacity of the
// fleet; the first of equal ones; -1 without a demand for any dimension that the
// fleet has. Where a fleet has unlimited machine lines these outweigh all others,
// and one machine of each represents the total.
func Scarcest(inst *binpack.Instance, mix []int64) int {
	demand := make([]wide, len(inst.Dimensions))
	for a, n := range mix {
		if n > 0 {
			addVector(demand, inst.Apps[a].Demand, n)
		}
	}
	capacity := fleetCapacity(inst)
	best, most := -1, 0.0
	for d := range demand {
		if load := share(demand[d], capacity[d]); load > most {
			best, most = d, load
		}
	}
	return best
}

func fleetCapacity(inst *binpack.Instance) []wide {
	limited := make([]wide, len(inst.Dimensions))
	unlimited := make([]wide, len(inst.Dimensions))
	endless := false
	for _, line := range inst.Machines {
		if line.Count == binpack.Unlimited {
			endless = true
			addVector(unlimited, line.Capacity, 1)
		} else {
			addVector(limited, line.Capacity, int64(line.Count))
		}
	}
	if endless {
		return unlimited
	}
	return limited
}

// roomyMachines lists the active machines with something free in dimension d:
// the others cannot change the sums.
func roomyMachines(s *binpack.State, d int) []int32 {
	var list []int32
	for m, free := range s.Free(d) {
		if free > 0 && s.Items(int32(m)) > 0 {
			list = append(list, int32(m))
		}
	}
	return list
}

// A demand is the demand vector of count items of the mix.
type demand struct {
	amounts []int64
	count   int64
}

// groupDemands joins apps of equal demand: thousands of apps are often a
// handful of sizes.
func groupDemands(inst *binpack.Instance, mix []int64) []demand {
	var list []demand
	index := map[string]int{}
	var key []byte
	for a, n := range mix {
		if n <= 0 {
			continue
		}
		key = key[:0]
		for _, v := range inst.Apps[a].Demand {
			key = binary.AppendVarint(key, v)
		}
		if at, ok := index[string(key)]; ok {
			list[at].count += n
			continue
		}
		index[string(key)] = len(list)
		list = append(list, demand{inst.Apps[a].Demand, n})
	}
	return list
}

// A fit is a bitset per demand of the machines where it does not fit.
type fit struct {
	words int
	bits  []uint64
}

// newFit takes the dimensions one after the other. Per dimension the machines are
// sorted by free amount and the demands by need, so that one sweep finds for each
// demand the machines that are too small: the work is (demands × machines ÷ 64)
// word operations per dimension instead of a look at every pair.
func newFit(s *binpack.State, demands []demand, machines []int32) *fit {
	f := &fit{words: (len(machines) + 63) / 64}
	f.bits = make([]uint64, len(demands)*f.words)
	byFree := make([]int32, len(machines))
	byNeed := make([]int32, len(demands))
	for i := range byFree {
		byFree[i] = int32(i)
	}
	for i := range byNeed {
		byNeed[i] = int32(i)
	}
	tooSmall := make([]uint64, f.words)
	for d, dim := range s.Instance().Dimensions {
		free := s.Free(d)
		if dim.Device {
			f.markDevices(s, d, demands, machines)
		}
		if !someTooSmall(free, machines, demands, d) {
			continue
		}
		slices.SortFunc(byFree, func(a, b int32) int { return cmp.Compare(free[machines[a]], free[machines[b]]) })
		slices.SortFunc(byNeed, func(a, b int32) int {
			return cmp.Compare(demands[a].amounts[d], demands[b].amounts[d])
		})
		clear(tooSmall)
		next := 0
		for _, i := range byNeed {
			need := demands[i].amounts[d]
			for ; next < len(byFree) && free[machines[byFree[next]]] < need; next++ {
				tooSmall[byFree[next]/64] |= 1 << (byFree[next] % 64)
			}
			if next > 0 {
				or(f.row(int(i)), tooSmall)
			}
		}
	}
	return f
}

// someTooSmall reports whether the largest demand does not fit on the fullest machine
// in the dimension. In many dimensions everything fits everywhere.
func someTooSmall(free []int64, machines []int32, demands []demand, d int) bool {
	least, most := free[machines[0]], int64(0)
	for _, m := range machines {
		least = min(least, free[m])
	}
	for _, demand := range demands {
		most = max(most, demand.amounts[d])
	}
	return most > least
}

// markDevices adds the machines without the devices that a demand needs: as many
// entirely free ones as it requests, or one with a sufficient free share.
func (f *fit) markDevices(s *binpack.State, d int, demands []demand, machines []int32) {
	one := s.Instance().Dimensions[d].One
	byNeed := map[int64][]uint64{} // few different demands for devices
	for i, demand := range demands {
		need := demand.amounts[d]
		if need == 0 {
			continue
		}
		without, ok := byNeed[need]
		if !ok {
			without = make([]uint64, f.words)
			for j, m := range machines {
				if !devicesFit(s.Devices(m, d), need, one) {
					without[j/64] |= 1 << (j % 64)
				}
			}
			byNeed[need] = without
		}
		or(f.row(i), without)
	}
}

func devicesFit(shares []int64, need, one int64) bool {
	wanted := max(1, need/one)
	for _, free := range shares {
		if free >= min(need, one) {
			wanted--
		}
	}
	return wanted <= 0
}

func (f *fit) row(i int) []uint64 { return f.bits[i*f.words : (i+1)*f.words] }

func or(into, from []uint64) {
	for w := range into {
		into[w] |= from[w]
	}
}
