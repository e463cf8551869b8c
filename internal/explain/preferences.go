package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A preferencesView is the effect of the item's preferences on the choice.
type preferencesView struct {
	Mode  string     `json:"mode"`  // keep, trade or ignore
	Terms []heldView `json:"terms"` // of the app
	// Limit is the most items of the group that a machine should hold, 0 = any number.
	Limit int32   `json:"limit"`
	Kept  int     `json:"kept"` // candidates that the policy decided among
	Soft  float64 `json:"softScore"`
	Best  float64 `json:"bestSoftScore"`
	Price float64 `json:"price"` // the score of alone less that of the chosen one
	Alone string  `json:"alone"` // the policy's choice without preferences
}

type heldView struct {
	Term  string  `json:"term"`
	Score float64 `json:"score"`
}

func preferencesOf(inst *binpack.Instance, app *binpack.App, p *binpack.Preferences) *preferencesView {
	if p == nil {
		return nil
	}
	v := &preferencesView{
		Mode: string(cmp.Or(p.Care.Mode, binpack.SoftKeep)), Terms: []heldView{}, Limit: p.Limit, Kept: p.Kept,
		Soft: p.Soft, Best: p.Best, Price: p.Price,
	}
	for _, t := range p.Terms {
		group := ""
		if t.Term.Group != app.Group {
			group = inst.Groups[t.Term.Group].Name
		}
		v.Terms = append(v.Terms, heldView{t.Term.Text(group), t.Score})
	}
	if p.Alone != nil {
		v.Alone = trace.MachineName(inst, p.Alone.Line, p.Alone.Index)
	}
	return v
}

// text lists the preferences, and how much of them holds on the chosen machine.
func (v *preferencesView) text() string {
	if v == nil {
		return "none"
	}
	var parts []string
	for _, t := range v.Terms {
		parts = append(parts, fmt.Sprintf("%s (%s)", t.Term, number(t.Score)))
	}
	if v.Limit > 0 {
		parts = append(parts, fmt.Sprintf("at most %d per machine", v.Limit))
	}
	return strings.Join(parts, ", ")
}

// remark describes whether preferences were kept or traded, and their price.
func (v *preferencesView) remark() string {
	did := map[string]string{"keep": "kept", "trade": "traded", "ignore": "ignored"}[v.Mode]
	text := fmt.Sprintf("Preferences are %s: the soft score is %s, the best of any candidate %s.", did, number(v.Soft), number(v.Best))
	if len(v.Terms) == 0 {
		text = "The item prefers nothing; the share of its app on a machine counts."
	}
	if v.Alone == "" {
		return text + " The policy takes the same machine without them."
	}
	return fmt.Sprintf("%s Without them the policy takes %s, whose score is higher by %s: that is their price.", text, v.Alone, number(v.Price))
}
