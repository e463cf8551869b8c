package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
)

// Config holds the inputs and the purpose of learning a policy.
type Config struct {
	Traces []*trace.Trace // days, or one long history, in order of time
	// From and Until cut the history, in seconds after its first event; Until 0 = its end.
	From, Until float64
	// Choose, if above 0, leaves the verdict to the caller, who keeps later days for it: the last
	// Choose seconds choose, the time before them trains, and nothing is judged.
	Choose  float64
	Target  Target
	InForce string // the name of the active policy
	Catalog compare.Catalog
	// PreferencesPercent is the most that preferences may add to the measured loss, in percent of
	// the loss without them: the price of the mode trade is searched. 0 = not searched. Choose
	// leaves no hours to judge the price on: both together are an error.
	PreferencesPercent float64
	Evaluations        int // of each training
	Seeds              int // trainings of each method
	Seed               uint64
	Workers            int
	Name               string // of the policy object
	Checkpoint         string // folder; "" = no checkpoint
	// Progress gets the evaluations that are done and all of them.
	Progress func(done, of int, note string)
}

// A Result is the verdict and its basis.
type Result struct {
	Better  bool           // with Config.Choose: on the part that chose
	Chosen  string         // a built-in name, "" where Object is to be written
	Object  *policy.Object // nil where Chosen is built in
	Against string
	Saving  *Interval // percent, on test; nil where nothing was measured
	Reason  string    // why nothing was learned; "" if a comparison decided
	Notes   []string
	Measure string // the quantity saved
	Parts   string // the hours of train, validation and test

	target Target

	// Preferences holds the results on their price; nil where it was not searched.
	Preferences *Preferences

	Candidates       []Entry
	Validation, Test []Row
}

// run is one tuning.
type run struct {
	cfg     Config
	traces  []*trace.Trace
	split   split
	done    int // evaluations of trainings that are over
	of      int
	measure measure
	// chosen is the candidate that was judged and chosen, before a last training, and reference
	// the rule that it was judged against.
	chosen, reference *candidate
	out               Result
}

// variants is the number of replays that judge a part (see [ledIn]).
const variants = 4

// Run learns a policy, judges it and chooses.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Choose > 0 && cfg.PreferencesPercent > 0 {
		return nil, fmt.Errorf("the settings Choose %g s and PreferencesPercent %g do not go together: the price of preferences is judged on hours of the history, and Choose leaves none for that", cfg.Choose, cfg.PreferencesPercent)
	}
	r := &run{cfg: cfg, traces: cfg.Traces, out: Result{target: cfg.Target}}
	if err := r.begin(); err != nil {
		if no, ok := errors.AsType[*nothingError](err); ok {
			r.safe(no.Error())
			return &r.out, nil
		}
		return nil, err
	}
	free, reference, err := r.bestRule(ctx)
	if err != nil {
		return nil, err
	}
	learned, err := r.trainAll(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.choose(ctx, free, reference, learned); err != nil {
		return nil, err
	}
	return &r.out, r.searchPrice(ctx)
}

// bestRule judges every rule on validation and test and returns all, and the best: the safe
// one, unless another is better in every draw of the bootstrap (of dozens of rules one is
// better in 95 % by luck) and on each trace (each may be a cluster of its own). Rules need no training, so the learned policy has to beat the
// best in hindsight.
func (r *run) bestRule(ctx context.Context) (all []*candidate, best *candidate, err error) {
	list, err := rules(r.cfg.Target, r.traces[0].Instance, r.cfg.Seed)
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		if checkSuits(list[i].name, list[i].object, r.traces) == nil {
			all = append(all, &list[i])
		}
	}
	later := slices.Concat(r.split.validate, r.split.test)
	found, err := judge(ctx, r.traces, later, all, r.cfg.Seed, r.cfg.Workers)
	if err != nil {
		return nil, nil, err
	}
	safe := slices.IndexFunc(all, func(c *candidate) bool { return c.name == r.cfg.Target.safe() })
	if r.fixed() && found[safe].sum().refused > 0 {
		r.measure = byLeftOut
	}
	r.out.Measure = r.what()
	at, most := safe, 0.
	for i := range all {
		if s := r.measure.saving(found[i], found[safe], r.cfg.Seed); r.allows(found[i], found[safe]) && s.least > 0 && r.measure.onEach(later, found[i], found[safe]) && s.Mean > most {
			at, most = i, s.Mean
		}
	}
	return all, all[at], nil
}

// allows reports whether a policy lets items wait no longer than another.
func (r *run) allows(own, other losses) bool {
	return r.measure != byCost || own.sum().waiting <= other.sum().waiting
}

// trainAll trains every method with every seed on the train part.
func (r *run) trainAll(ctx context.Context) ([]*candidate, error) {
	var list []*candidate
	for _, m := range methods(r.cfg.Target, r.traces) {
		starts := m.starts(r.fixed())
		var members []*policy.Object
		for i := range r.cfg.Seeds {
			if len(starts) > 0 {
				members = append(members, starts[i%len(starts)])
			} else {
				members = append(members, nil)
			}
		}
		if r.averages(m) {
			c, err := r.average(ctx, m, r.split.train, members, "")
			if err != nil {
				return nil, err
			}
			list = append(list, c)
			continue
		}
		for i, start := range members {
			seed := r.cfg.Seed + uint64(i)
			object, err := r.learn(ctx, m, r.split.train, seed, start, fmt.Sprintf("%s-%d", m.file(), seed))
			if err != nil {
				return nil, err
			}
			p, err := r.cfg.Target.policy(object, r.cfg.Seed)
			if err != nil {
				return nil, err
			}
			list = append(list, &candidate{name: fmt.Sprintf("%s, seed %d", m, seed), kind: trained, policy: p, object: object, how: m, seed: seed})
		}
	}
	return list, nil
}

func (r *run) progress(done int, note string) {
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.done+done, r.of, note)
	}
}

func (r *run) finished() { r.done += r.cfg.Evaluations }
