package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// prices are searched from the dearest on. Scores of policies differ by about 1, and a term
// weighs 1 to 100.
var prices = []float64{1, .5, .2, .1, .05, .04, .03, .02, .01, .005, .002, .001, .0005, .0002, .0001}

// Preferences hold the results of the search for their price.
type Preferences struct {
	Mode  binpack.SoftMode `json:"mode"`  // of the policy: keep or trade, or ignore where even the least price costs too much
	Price float64          `json:"price"` // of trade
	Most  float64          `json:"most_percent"`
	// Searched and Test are on the part that chooses, here the price, too, and on the part that judges.
	Searched []PriceRow `json:"searched"`
	Test     []PriceRow `json:"test"`
	// Saving is against the policy in force on the hours of the test. That of the verdict is from before
	// the price was set, in VerdictMode.
	Saving      Interval         `json:"saving_percent"`
	VerdictMode binpack.SoftMode `json:"verdict_mode"`

	against, measure string
}

// A PriceRow is the cost of a setting of spec.soft, and the preferences that pods give up under it.
type PriceRow struct {
	Mode  binpack.SoftMode `json:"mode"`
	Price float64          `json:"price"`
	// Extra is by how many percent the measured loss exceeds that of mode ignore; GivenUp the
	// percentage of pods' preferences, by weight, that they do not get although some node has them.
	Extra   float64 `json:"extra_percent"`
	GivenUp float64 `json:"given_up_percent"`
}

// searchPrice gives the policy that was chosen, or the one in force that stays, the price of preferences
// under which pods give up least, among those that cost no more than allowed on the part that chooses.
// A built-in policy becomes a file for it.
func (r *run) searchPrice(ctx context.Context) error {
	most := r.cfg.PreferencesPercent
	if most == 0 {
		return nil
	}
	prefers := func(a binpack.App) bool { return len(a.Soft) > 0 }
	if !slices.ContainsFunc(r.traces[0].Instance.Apps, prefers) {
		r.note("the price of preferences was not searched: no pod of the history prefers anything")
		return nil
	}
	object, err := r.written(r.chosen)
	if err != nil {
		return err
	}
	settings := []policy.Soft{{Mode: binpack.SoftIgnore}, {Mode: binpack.SoftKeep}}
	for _, price := range prices {
		settings = append(settings, policy.Soft{Mode: binpack.SoftTrade, Price: price})
	}
	before, err := r.lossesWith(ctx, r.split.validate, object, settings)
	if err != nil {
		return err
	}
	found, waits := r.priceRows(settings, before)
	best := leastGivenUp(found, waits, most)
	judged, at := settings[:2], best
	if best > 1 {
		judged, at = []policy.Soft{settings[0], settings[1], settings[best]}, 2
	}
	after, err := r.lossesWith(ctx, r.split.test, object, judged)
	if err != nil {
		return err
	}
	test, _ := r.priceRows(judged, after)
	p := &Preferences{
		Mode: settings[best].Mode, Price: settings[best].Price, Most: most, Searched: found, Test: test,
		Saving:      r.savingOf(after[at], after[len(judged)], r.isBuilt(r.split.test)),
		VerdictMode: cmp.Or(binpack.CareOf(r.chosen.policy).Mode, binpack.SoftKeep), against: r.current.name, measure: r.out.Measure,
	}
	object.Spec.Soft = &settings[best]
	object.Spec.Provenance["preferences"] = map[string]any{
		"mostPercent": most, "extraPercent": found[best].Extra, "givenUpPercent": found[best].GivenUp, "verdictMode": string(p.VerdictMode),
		"test": map[string]any{
			"extraPercent": test[at].Extra, "givenUpPercent": test[at].GivenUp,
			"savingPercent": p.Saving.fields(),
		},
	}
	r.out.Object, r.out.Chosen, r.out.Preferences = object, "", p
	r.note("%s", p.text())
	return nil
}

// leastGivenUp is the row that gives up least of those that cost at most so much and under which no pod waits longer;
// the first if no row qualifies.
func leastGivenUp(rows []PriceRow, waits []bool, most float64) (best int) {
	for i := range rows {
		if !waits[i] && rows[i].Extra <= most && rows[i].GivenUp < rows[best].GivenUp {
			best = i
		}
	}
	return best
}

// lossesWith are those of a policy on a part with each of some settings, and last those of the
// policy in force.
func (r *run) lossesWith(ctx context.Context, part []span, object *policy.Object, settings []policy.Soft) ([]losses, error) {
	var list []*candidate
	for i := range settings {
		o := *object
		o.Spec.Soft = &settings[i]
		p, err := r.cfg.Target.policy(&o, r.cfg.Seed)
		if err != nil {
			return nil, err
		}
		list = append(list, &candidate{name: string(settings[i].Mode), policy: p, prefers: true})
	}
	return judge(ctx, r.traces, part, append(list, r.current), r.draws(part), r.cfg.Seed, r.cfg.Workers)
}

// priceRows are the costs of settings compared with the first of them, which ignores preferences; waits
// marks those under which pods wait longer.
func (r *run) priceRows(settings []policy.Soft, all []losses) (rows []PriceRow, waits []bool) {
	base := all[0].sum()
	for i, s := range settings {
		sum := all[i].sum()
		row := PriceRow{Mode: s.Mode, Price: s.Price, Extra: round(0 - percent(r.measure.of(sum), r.measure.of(base)))}
		if sum.preferring > 0 {
			row.GivenUp = round(100 * sum.givenUp / sum.preferring)
		}
		rows, waits = append(rows, row), append(waits, !r.allowed(all[i], all[0]))
	}
	return rows, waits
}

func (p *Preferences) text() string {
	name := string(p.Mode)
	if p.Mode == binpack.SoftTrade {
		name = fmt.Sprintf("trade at a price of %g", p.Price)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Preferences: %s gives up least of those that cost %g %% more than ignore or less. On the hours of the test", name, p.Most)
	for i, row := range p.Test {
		what := string(row.Mode)
		if row.Mode == binpack.SoftTrade {
			what = "the price"
		}
		fmt.Fprintf(&text, "%s %s costs %s %% and gives up %s %%", [...]string{"", ",", ","}[i], what, sheet.Figure(row.Extra, 2, true), sheet.Figure(row.GivenUp, 1, false))
	}
	fmt.Fprintf(&text, " of what pods prefer. With %s the policy has %s than %s, the policy in force; the verdict is of the mode %s.", name, p.Saving.text(p.measure), p.against, p.VerdictMode)
	return text.String()
}
