package capacity

import "fmt"

// law decides after each trial: the demand is cpu ÷ answers, the time inside is the
// number inside ÷ the rate (Little), and the closed network that has both gives the
// smallest limit with .97 of the best throughput.
type law struct {
	settings Settings
	trials   []Window // the last ones
	found    Capacity
	known    bool
}

// lawTrials is the number of trials that law keeps: a change of the workload is forgotten as
// fast.
const lawTrials = 3

func newLaw(s Settings) Learner { return &law{settings: s} }

func (l *law) Tell(w Window) {
	if w.Failing() {
		return // the usage of a dying pod is not that of its requests
	}
	if l.trials = append(l.trials, w); len(l.trials) > lawTrials {
		l.trials = l.trials[1:]
	}
	f := fitTrials(l.trials, l.settings.noise())
	if l.known = f.known; !f.known {
		return
	}
	n, _ := f.Peak(l.settings.Max, goodShare)
	n = l.settings.up(float64(n))
	l.found = f.capacity(n, f.Throughput(n), len(l.trials), f.say())
}

func (l *law) Next() int {
	if l.known {
		return l.found.Limit
	}
	return l.settings.Initial
}

func (l *law) Estimate() (Capacity, bool) { return l.found, l.known }

// say explains the law's limit.
func (f *fit) say() string {
	if f.Contention > 0 {
		return fmt.Sprintf("%.3g ms of cpu and %.3g ms of waiting a request, %.2g %% more cpu for each other one", 1000*f.Demand, 1000*f.Wait, 100*f.Contention)
	}
	return fmt.Sprintf("%.3g ms of cpu and %.3g ms of waiting a request", 1000*f.Demand, 1000*f.Wait)
}
