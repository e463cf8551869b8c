package usage

import "math"

// Means adds up the cpu that the pods of a workload use at the same time, for the mean of one pod, over the last [Window]
// days. The zero value is empty. It serves one goroutine.
type Means struct {
	numbers [Window]int64 // of the days, by day modulo Window
	days    [Window][]sum // by step; nil = no sample
}

// A sum is the use of all pods in one step.
type sum struct{ used, seconds float32 } // core-seconds, and seconds of pods

// Add counts a sample as [History.AddCPU] does.
func (m *Means) Add(at, seconds, cores float64) {
	number := math.Floor(at / day)
	until := min(at+seconds, (number+1)*day)
	steps := m.day(int64(number))
	if steps == nil {
		return
	}
	for i := int((at - number*day) / step); at < until && i < len(steps); i++ {
		next := min(until, number*day+float64(i+1)*step)
		steps[i].used += float32(cores * (next - at))
		steps[i].seconds += float32(next - at)
		at = next
	}
}

// day are the steps of a day, nil if a later day took its place.
func (m *Means) day(number int64) []sum {
	i := mod(number, Window)
	switch {
	case m.days[i] == nil:
		m.days[i] = make([]sum, int(day/step))
	case m.numbers[i] > number:
		return nil
	case m.numbers[i] < number:
		clear(m.days[i])
	}
	m.numbers[i] = number
	return m.days[i]
}

// Move counts the mean pod of each step in the history of the same pods, and empties the means.
func (m *Means) Move(to *History) {
	for i, steps := range m.days {
		for k, s := range steps {
			if s.seconds > 0 {
				to.means.add(float64(m.numbers[i])*day+float64(k)*step, min(step, float64(s.seconds)), bucketOf(float64(s.used/s.seconds)))
			}
		}
	}
	*m = Means{}
}
