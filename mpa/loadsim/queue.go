package loadsim

// A fifo is a queue of jobs.
type fifo struct {
	list []int32 // from head on
	head int
}

func (f *fifo) len() int { return len(f.list) - f.head }

func (f *fifo) push(job int32) { f.list = append(f.list, job) }

func (f *fifo) pop() int32 {
	job := f.list[f.head]
	if f.head++; f.head > 64 && 2*f.head > len(f.list) {
		f.list = f.list[:copy(f.list, f.list[f.head:])]
		f.head = 0
	}
	return job
}

// An event of a job: at a time, or at an attained service.
type event struct {
	at     float64
	job    int32
	serial uint32 // of the job, to distinguish it from a later one in the same place
}

// eventHeap has the earliest event on top.
type eventHeap []event

func (h *eventHeap) push(e event) {
	s := append(*h, e)
	*h = s
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s[up].at <= e.at {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
}

func (h *eventHeap) pop() event {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].at < s[down].at {
			down++
		}
		if last.at <= s[down].at {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return top
}
