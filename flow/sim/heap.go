package sim

// An entry of a heap: a flow and the key that it is ordered by.
type entry struct {
	key float64
	id  int32
}

// A heap has the smallest key first; four children to a parent. Equal keys may leave in any
// order, the same for the same pushes.
type heap []entry

func (h *heap) push(e entry) {
	q := append(*h, e)
	*h = q
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if q[parent].key <= e.key {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = e
}

// pop removes the first entry.
func (h *heap) pop() {
	q := *h
	last := len(q) - 1
	e := q[last]
	q = q[:last]
	*h = q
	if last == 0 {
		return
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= last {
			break
		}
		least, key := child, q[child].key
		for c := child + 1; c < min(child+4, last); c++ {
			if k := q[c].key; k < key {
				least, key = c, k
			}
		}
		if key >= e.key {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = e
}
