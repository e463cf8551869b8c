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
	// Choose, if above 0, leaves the verdict to the caller, who keeps later days for it: the days of the
	// last Choose seconds choose, those before them train, and nothing is judged.
	Choose  float64
	Target  Target
	InForce string // the name of the active policy; "" = the one that a target has at first
	Catalog compare.Catalog
	// PreferencesPercent is the most that preferences may add to the measured loss, in percent of
	// the loss without them: the price of the mode trade is searched. 0 = not searched. Choose
	// leaves no hours to judge the price on: both together are an error.
	PreferencesPercent float64
	Evaluations        int // of each training
	Seeds              int // trainings of each method; 0 = no training
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
	Chosen  string         // a built-in name, "" where Object is to be written or nothing is better
	Object  *policy.Object // nil where Chosen is built in
	Rule    string         // the chosen one, also where Object holds it; "" = another policy
	Against string         // the policy in force
	Saving  *Interval      // percent, on test; nil where nothing was measured
	Reason  string         // why nothing was learned; "" if a comparison decided
	Notes   []string
	Measure string // the quantity saved
	Parts   Parts

	target    Target
	forbidden string // the reason for which the best other policy may not be adopted; "" = it may

	// Preferences holds the results on their price; nil where it was not searched.
	Preferences *Preferences

	Candidates       []Entry
	Validation, Test []Row
}

// Parts are the days that trained, chose and judged, in words; "" = none.
type Parts struct {
	Train  string `json:"train"`
	Choose string `json:"choose"`
	Judge  string `json:"judge"`
	// Exposure is how the days that judge differ from the others.
	Exposure string `json:"exposure"`
}

// text is one sentence of the parts.
func (p *Parts) text() string {
	text := "Chosen on " + p.Choose
	if p.Train != "" {
		text = "Trained on " + p.Train + ", chosen on " + p.Choose
	}
	if p.Judge != "" {
		text += ", judged on " + p.Judge
	}
	return text
}

// run is one tuning.
type run struct {
	cfg      Config
	traces   []*trace.Trace // those of cfg, cut, and then the built days
	split    split
	searches []method // none where nothing is trained
	done     int      // evaluations of trainings that are over
	of       int
	measure  measure
	// chosen is the candidate that was judged and chosen, and current the policy in force.
	chosen, current *candidate
	out             Result
}

// The lengths of training by default: a minute for a day of 200 nodes.
const (
	DefaultEvaluations = 72
	DefaultSeeds       = 1
)

// judging is the least number of replays that judge a recorded part, and variants that of each of its days.
const (
	judging  = 8
	variants = 2
)

// Run learns a policy, judges it and chooses.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Choose > 0 && cfg.PreferencesPercent > 0 {
		return nil, fmt.Errorf("the settings Choose %g s and PreferencesPercent %g do not go together: the price of preferences is judged on hours of the history, and Choose leaves none for that", cfg.Choose, cfg.PreferencesPercent)
	}
	if cfg.InForce == "" {
		cfg.InForce = cfg.Target.Installed()
	}
	r := &run{cfg: cfg, traces: slices.Clone(cfg.Traces), out: Result{target: cfg.Target, Against: cfg.InForce}}
	if err := r.begin(); err != nil {
		if no, ok := errors.AsType[*nothingError](err); ok {
			r.out.Reason = no.Error()
			return &r.out, nil
		}
		return nil, err
	}
	if err := r.choose(ctx); err != nil {
		return nil, err
	}
	return &r.out, r.searchPrice(ctx)
}

// draws are the replays that judge a part (see [ledIn]): one of built days, each of which is a draw of its
// own. A day that both chooses and judges does so in different draws.
func (r *run) draws(part []span) (d draws) {
	switch {
	case r.isBuilt(part):
		d.count = 1
	case part[0].whole:
		d.count = variants
	default:
		days := 0
		for _, s := range part {
			days += len(s.marks)
		}
		d.count = max(variants, (judging+days-1)/days)
	}
	if r.again() && &part[0] == &r.split.test[0] {
		d.first = d.count
	}
	return d
}

// isBuilt reports whether a part is of built days.
func (r *run) isBuilt(part []span) bool { return len(part) > 0 && part[0].trace >= len(r.cfg.Traces) }

// trainAll trains by every method with every seed.
func (r *run) trainAll(ctx context.Context) (list []*candidate, err error) {
	for _, m := range r.searches {
		for i := range r.cfg.Seeds {
			seed := r.cfg.Seed + uint64(i)
			object, err := r.learn(ctx, m, seed)
			if err != nil {
				return nil, err
			}
			p, err := r.cfg.Target.policy(object, r.cfg.Seed)
			if err != nil {
				return nil, err
			}
			list = append(list, &candidate{name: fmt.Sprintf("%s, seed %d", m, seed), kind: trained, policy: p, object: object})
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
