package reassign

import "slices"

// Steps orders the moves from the start to an assignment: the processes of a step leave their machines together,
// then they arrive. After each step the assignment is valid. A step is one process where that is possible;
// processes that wait for each other's room share one.
func (p *Problem) Steps(assignment []int32) (steps [][]int32) {
	s := newAnnealer(p, 0)
	var left []int32
	for i, m := range assignment {
		if m != p.Start[i] {
			left = append(left, int32(i))
		}
	}
	for len(left) > 0 {
		before := len(left)
		left = slices.DeleteFunc(left, func(i int32) bool {
			if !s.carry([]int32{i}, assignment) {
				return false
			}
			steps = append(steps, []int32{i})
			return true
		})
		if len(left) < before {
			continue
		}
		group := s.together(left, assignment)
		steps = append(steps, group)
		left = slices.DeleteFunc(left, func(i int32) bool { return slices.Contains(group, i) })
	}
	return steps
}

// together carries out the smallest group found of processes that can move at once.
func (s *annealer) together(left []int32, assignment []int32) []int32 {
	best := slices.Clone(left)
	for _, first := range left {
		group := []int32{first}
		for k := 0; k < len(group) && len(group) < len(best); k++ {
			// What is about to leave the machine makes room.
			for _, j := range left {
				if s.at[j] == assignment[group[k]] && !slices.Contains(group, j) {
					group = append(group, j)
				}
			}
			if len(group) < len(best) && s.carry(group, assignment) {
				for _, i := range group {
					s.shift(i, s.p.Start[i]) // the smallest is carried out below
				}
				best = slices.Clone(group)
			}
		}
	}
	s.carry(best, assignment)
	return best
}

// carry moves processes at once, if what follows is valid.
func (s *annealer) carry(group []int32, assignment []int32) bool {
	was := make([]int32, len(group))
	for k, i := range group {
		was[k] = s.at[i]
		s.shift(i, assignment[i])
	}
	for k, i := range group {
		if s.over(s.at[i]) || s.runs[s.slot(i, s.at[i])] > 1 || !s.valid(i, was[k]) {
			for k, i := range group {
				s.shift(i, was[k])
			}
			return false
		}
	}
	return true
}

// over reports whether a machine holds more than its capacity.
func (s *annealer) over(m int32) bool {
	for r, c := range s.p.Machines[m].Capacity {
		if s.full[int(m)*s.r+r] > c {
			return true
		}
	}
	return false
}
