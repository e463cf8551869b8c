package aware

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/learn/rl"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

const (
	unseenFirst = 640_000
	evaluated   = 1000 // the first of the episodes that nobody trains on
	reached     = .95  // of the trained optimum
)

// adapted is how fast ways of transfer adapt to an unseen application.
type adapted struct {
	seed    uint64
	optimum float64 // lowest objective of the learner that began with nothing
	// hours until an objective of optimum ÷ .95, and the last objective: scratch, the
	// transfers, learned; +Inf = not within the budget.
	hours, last []float64
}

func (x *experiments) adapt(ctx context.Context) error {
	apps, err := x.applications(unseenFirst, x.unseenApps, true)
	if err != nil {
		return err
	}
	// One goroutine at a time uses the embedder.
	embeddings := make([][][]float32, len(apps))
	for i, a := range apps {
		for _, t := range transfers {
			c, err := t.constants(ctx, x.pooled, a)
			if err != nil {
				return err
			}
			embeddings[i] = append(embeddings[i], c)
		}
	}
	x.adapted = make([]*adapted, len(apps))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(1, x.cfg.Workers))
	for i, a := range apps {
		group.Go(func() (err error) {
			x.adapted[i], err = x.adaptTo(inner, a, embeddings[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return x.similar(ctx, apps)
}

// adaptTo trains each way on an application.
func (x *experiments) adaptTo(ctx context.Context, a *application, constants [][]float32) (*adapted, error) {
	out := &adapted{seed: a.seed}
	marks := make([]*sim.Result, x.evaluations)
	for i := range marks {
		r, err := a.run(ctx, evaluated+i, x.rules(a))
		if err != nil {
			return nil, err
		}
		marks[i] = &r
	}
	judge := func(make func() mpa.Agent) (sum float64, err error) {
		for i := range marks {
			r, err := a.run(ctx, evaluated+i, make())
			if err != nil {
				return 0, err
			}
			sum += a.objective(&r, marks[i]) / float64(x.evaluations)
		}
		return sum, nil
	}
	var curves [][]float64 // objective after 0, 5, 10 … episodes
	for i := range len(transfers) + 1 {
		var learner *rl.DDPG
		var known []float32
		var err error
		if i == 0 {
			learner, err = rl.New(ways[1].config(0, a.seed))
		} else {
			known = constants[i-1]
			learner, err = clone(x.pooled.transfers[i-1])
		}
		if err != nil {
			return nil, err
		}
		var curve []float64
		for k := 0; ; k++ {
			if k%x.adaptEvery == 0 {
				value, err := judge(func() mpa.Agent { return network(learner, a, known) })
				if err != nil {
					return nil, err
				}
				curve = append(curve, value)
			}
			if k == x.adaptEpisodes {
				break
			}
			student := &ddpg.Student{Target: a.scenario.App.Target, Learner: learner, Reward: ddpg.Promise, Constants: known}
			if _, err := a.run(ctx, k, student); err != nil {
				return nil, err
			}
			if err := student.End(); err != nil {
				return nil, err
			}
			x.step()
		}
		curves = append(curves, curve)
	}
	out.optimum = slices.Min(curves[0])
	for i, curve := range curves {
		hours := math.Inf(1)
		if at := slices.IndexFunc(curve, func(v float64) bool { return v <= out.optimum/reached }); at >= 0 {
			hours = float64(at*x.adaptEvery) * x.hours
		}
		if i > 0 && transfers[i-1].size == embeddingSize {
			hours += x.hours // under rules, for the embedding to be read from
		}
		out.hours, out.last = append(out.hours, hours), append(out.last, curve[len(curve)-1])
	}
	return out, x.units(ctx, a, out, judge)
}

// units measures `learned`: of the first half hour, hour and so on that it sees of the
// application, which is the first whose objective is good enough.
func (x *experiments) units(ctx context.Context, a *application, out *adapted, judge func(func() mpa.Agent) (float64, error)) error {
	last, err := judge(func() mpa.Agent { return x.learned(a) })
	if err != nil {
		return err
	}
	hours := math.Inf(1)
	for _, until := range []float64{x.hours / 3, x.hours * 2 / 3, x.hours} {
		sum := 0.0
		for i := range x.evaluations {
			cfg, err := a.episode(evaluated + i)
			if err != nil {
				return err
			}
			cfg.Seconds = until * 3600
			cfg.Agent = x.rules(a)
			rules, err := sim.Run(ctx, cfg)
			if err != nil {
				return err
			}
			cfg.Agent = x.learned(a)
			r, err := sim.Run(ctx, cfg)
			if err != nil {
				return err
			}
			sum += a.objective(&r, &rules) / float64(x.evaluations)
		}
		if sum <= out.optimum/reached {
			hours = until
			break
		}
	}
	out.hours, out.last = append(out.hours, hours), append(out.last, last)
	return nil
}

// similar measures the cosines of embeddings: of episodes of one application, and of
// applications.
func (x *experiments) similar(ctx context.Context, unseen []*application) error {
	p := x.pooled
	list := append(slices.Clone(p.apps), unseen...)
	var first, second [][]float32
	for _, a := range list {
		for k, to := range []*[][]float32{&first, &second} {
			seen, err := a.watched(ctx, 50+k)
			if err != nil {
				return err
			}
			e, err := p.embedder.embed(seen)
			if err != nil {
				return err
			}
			*to = append(*to, e)
		}
	}
	for i := range list {
		p.same = append(p.same, cosine(first[i], second[i]))
		nearest := 0
		for j := range list {
			c := cosine(first[i], second[j])
			if i != j {
				p.others = append(p.others, c)
			}
			if c > cosine(first[i], second[nearest]) {
				nearest = j
			}
		}
		if nearest == i {
			p.recognised++
		}
	}
	return nil
}

// adaptPage answers the first question.
func (x *experiments) adaptPage(p *records.Page) {
	p.Heading("RQ1: how fast it adapts to an unseen application")
	p.Text(fmt.Sprintf(`%d applications of the train side with a profile (%s, %s) that no application of the pool has. *Scratch* begins with nothing; the others with %d episodes on %d applications of
the pool, by turns. All have the reward by promise, no band and %d episodes. TL+ also knows the mean rate ÷ cores and its variation, the meta-learner's agent a GRU's memory of %d numbers of an episode under rules.
After every %d episodes each is judged without exploration on %d others, by cost ÷ rules + 1.5·ln(1 + over ÷ .5), over being late or lost ÷ forgiven beyond .5 or the rules'. The *trained optimum* is the best that scratch ever reaches;
the time is until an objective of at most that ÷ %.2f. `+"`learned`"+` trains nothing: its time is the first half hour, hour or episode that is as good, from the first second that it sees of the application.`,
		x.unseenApps, heldProfiles[0], heldProfiles[1], x.poolEpisodes, x.poolApps, x.adaptEpisodes, embeddingSize, x.adaptEvery, x.evaluations, reached))
	names := []string{"scratch"}
	for _, t := range transfers {
		names = append(names, t.name)
	}
	names = append(names, "no embedding but identified units (`learned`)")
	t := records.Table{Heads: []string{"hours to 95 % of the trained optimum (last objective)"}}
	for i, a := range x.adapted {
		t.Heads = append(t.Heads, fmt.Sprintf("seed %d, optimum %.2f", a.seed, a.optimum))
		t.Right = append(t.Right, i+1)
	}
	t.Heads, t.Right = append(t.Heads, "median"), append(t.Right, len(x.adapted)+1)
	medians := make([]float64, len(names))
	show := func(hours float64) string {
		if math.IsInf(hours, 1) {
			return fmt.Sprintf("> %.0f", float64(x.adaptEpisodes)*x.hours)
		}
		return fmt.Sprintf("%.1f", hours)
	}
	for i, name := range names {
		row, hours := []string{name}, []float64{}
		for _, a := range x.adapted {
			row = append(row, fmt.Sprintf("%s (%.2f)", show(a.hours[i]), a.last[i]))
			hours = append(hours, a.hours[i])
		}
		slices.Sort(hours)
		medians[i] = hours[len(hours)/2]
		t.Rows = append(t.Rows, append(row, show(medians[i])))
	}
	p.Table(t)
	least := func(h float64) float64 { return min(h, float64(x.adaptEpisodes)*x.hours) }
	units := max(least(medians[4]), 1./60)
	table := records.LineTable()
	for _, l := range []records.Line{
		lineOf("unseen applications, medians", "minutes until `learned` is there", 60*least(medians[4]), "", records.AtMost(30), records.AtMost(10)),
		lineOf("unseen applications, medians", "hours of TL ÷ `learned`", least(medians[1])/units, "AWARE 5.5", records.AtLeast(5), records.Target{}),
		lineOf("unseen applications, medians", "hours of TL+ ÷ `learned`", least(medians[2])/units, "AWARE 4.6", records.AtLeast(5), records.Target{}),
		lineOf("unseen applications, medians", "hours of TL ÷ embedding", least(medians[1])/max(least(medians[3]), x.hours), "AWARE 5.5", records.Target{}, records.Target{}),
		lineOf("unseen applications, medians", "hours of TL+ ÷ embedding", least(medians[2])/max(least(medians[3]), x.hours), "AWARE 4.6", records.Target{}, records.Target{}),
	} {
		table.Rows = append(table.Rows, l.Row())
	}
	p.Table(table)
	e := x.pooled
	p.Text(fmt.Sprintf(`Cosines of embeddings, %d applications: %.3f in the mean between two episodes of one (least %.3f), %.3f between two applications (least %.3f). For %d the nearest other episode is one of its own.
An embedding's time has the episode under rules that it is read from; hours beyond the budget count as the budget in the ratios.`,
		len(e.same), mean(e.same), slices.Min(e.same), mean(e.others), slices.Min(e.others), e.recognised))
}

func mean(list []float64) (m float64) {
	for _, v := range list {
		m += v / float64(len(list))
	}
	return m
}
