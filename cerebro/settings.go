package cerebro

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// ParseRepair reads a [Repair] such as "budget=2%,chain=8"; settings that are left out have these values.
func ParseRepair(text string) (*Repair, error) {
	r := &Repair{Budget: .02, Chain: defrag.DefaultChain}
	return r, settings(text, map[string]func(string) error{
		"takes":   r.setTakes,
		"perhour": r.setPerHour,
		"budget":  shareOf(&r.Budget),
		"chain": func(text string) (err error) {
			if r.Chain, err = strconv.Atoi(text); err != nil || r.Chain < 1 {
				return errors.New("want a number of moves from 1 on")
			}
			return nil
		},
	})
}

// String returns the form that [ParseRepair] reads.
func (r *Repair) String() string {
	return fmt.Sprintf("budget=%s,chain=%d%s", percent(r.Budget), r.Chain, r.Pace.String())
}

// ParseRebalance reads a [Rebalance] such as "every=15m,moves=.5%"; settings that are left out have
// these values.
func ParseRebalance(text string) (*Rebalance, error) {
	r := &Rebalance{Every: 15 * time.Minute.Seconds(), Moves: .005}
	return r, settings(text, map[string]func(string) error{
		"takes":   r.setTakes,
		"perhour": r.setPerHour,
		"moves":   shareOf(&r.Moves),
		"every": func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 {
				return errors.New("want a time above 0 with its unit, such as 15m or 1h30m")
			}
			r.Every = d.Seconds()
			return nil
		},
	})
}

func (p *Pace) setTakes(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("want a time with its unit, such as 60s; 0s is at once")
	}
	p.Takes = d.Seconds()
	return nil
}

func (p *Pace) setPerHour(text string) (err error) {
	if p.PerHour, err = strconv.ParseFloat(text, 64); err != nil || !(p.PerHour > 0 && p.PerHour <= 1e9) {
		return errors.New("want a number of moves above 0")
	}
	return nil
}

// String returns the form that [ParseRebalance] reads.
func (r *Rebalance) String() string {
	return fmt.Sprintf("every=%s,moves=%s%s", duration(r.Every), percent(r.Moves), r.Pace.String())
}

// String is empty for moves that are instant and without a limit an hour.
func (p *Pace) String() string {
	text := ""
	if p.Takes > 0 {
		text += ",takes=" + duration(p.Takes).String()
	}
	if p.PerHour > 0 {
		text += ",perhour=" + strconv.FormatFloat(p.PerHour, 'g', -1, 64)
	}
	return text
}

func duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// settings reads name=value,name=value.
func settings(text string, set map[string]func(string) error) error {
	given := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		f := set[name]
		if !ok || f == nil {
			return fmt.Errorf("%q: want name=value with a name of %s", part, strings.Join(slices.Sorted(maps.Keys(set)), ", "))
		}
		if given[name] {
			return fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		if err := f(value); err != nil {
			return fmt.Errorf("%s %q: %w", name, value, err)
		}
	}
	return nil
}

// shareOf reads a percentage above 0, at most 100.
func shareOf(share *float64) func(string) error {
	return func(text string) error {
		number, ok := strings.CutSuffix(text, "%")
		percent, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !(percent > 0 && percent <= 100) {
			return errors.New("want a percentage above 0% and up to 100%, such as 2%")
		}
		*share = percent / 100
		return nil
	}
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 10, 64) + "%" }
