package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// A Question is a set of changes. All changes are made together, in the order of the fields.
type Question struct {
	Add     string   // more items of every app, such as "20%"
	Apps    []string // more or fewer items of one app, such as "web=+30"
	Without []string // zones that are removed
	Nodes   []string // the number of machines of a type, such as "m5.large=12", "=+4" or "=-2"
	Lose    int      // machines that fail at once: 0 or 1
}

// most bounds the numbers of a question, as the format of traces does.
const most = 1 << 22

// A fieldError is an error that names the wrong flag.
func fieldError(flag, value, format string, args ...any) error {
	return fmt.Errorf("--%s %s: "+format, append([]any{flag, value}, args...)...)
}

// percent reads Add: the growth of the items of every app in percent.
func (q *Question) percent() (float64, error) {
	if q.Add == "" {
		return 0, nil
	}
	text, ok := strings.CutSuffix(q.Add, "%")
	v, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(v > 0 && v <= 10000) {
		return 0, fieldError("add", q.Add, "want a share from above 0%% to 10000%%, such as 20%%; fewer items of an app are --app NAME=-30")
	}
	return v, nil
}

// change splits NAME=NUMBER at the last equals sign; sign reports whether the number has one.
func change(flag, text string) (name string, n int, sign bool, err error) {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return "", 0, false, fieldError(flag, text, "want a name, an equals sign and a number")
	}
	number := text[at+1:]
	sign = strings.HasPrefix(number, "+") || strings.HasPrefix(number, "-")
	n, err = strconv.Atoi(number)
	if err != nil || n > most || n < -most {
		return "", 0, false, fieldError(flag, text, "%q: want a whole number of at most %d", number, most)
	}
	return text[:at], n, sign, nil
}

// Check returns the errors of a question that show without a trace.
func (q *Question) Check() error {
	if q.Add == "" && len(q.Apps)+len(q.Without)+len(q.Nodes) == 0 && q.Lose == 0 {
		return errors.New("nothing is asked: want --add, --app, --without, --nodes or --lose")
	}
	if _, err := q.percent(); err != nil {
		return err
	}
	for _, text := range q.Apps {
		_, n, sign, err := change("app", text)
		switch {
		case err != nil:
			return err
		case !sign || n == 0:
			return fieldError("app", text, "want a sign and a number that is not 0, such as +30 or -5")
		}
	}
	for _, text := range q.Nodes {
		_, n, sign, err := change("nodes", text)
		switch {
		case err != nil:
			return err
		case sign && n == 0:
			return fieldError("nodes", text, "want a number that is not 0 behind a sign")
		}
	}
	if q.Lose != 0 && q.Lose != 1 {
		return fieldError("lose", strconv.Itoa(q.Lose), "want 1: each machine is tried alone; several of a type are --nodes TYPE=-2")
	}
	return nil
}

// String is the question as flags.
func (q *Question) String() string {
	var parts []string
	if q.Add != "" {
		parts = append(parts, "--add "+q.Add)
	}
	for _, of := range []struct {
		flag string
		list []string
	}{{"app", q.Apps}, {"without", q.Without}, {"nodes", q.Nodes}} {
		for _, v := range of.list {
			parts = append(parts, "--"+of.flag+" "+v)
		}
	}
	if q.Lose > 0 {
		parts = append(parts, "--lose "+strconv.Itoa(q.Lose))
	}
	return strings.Join(parts, " ")
}

// apply makes the changes except for the loss.
func (q *Question) apply(t *trace.Trace) (*site, error) {
	s := newSite(t)
	share, err := q.percent()
	if err != nil {
		return nil, err
	}
	if share > 0 {
		for a, n := range more(s.items(), share) {
			s.arrive(int32(a), n)
		}
	}
	for _, text := range q.Apps {
		name, n, _, err := change("app", text)
		if err != nil {
			return nil, err
		}
		if err := s.changeApp(name, n); err != nil {
			return nil, fieldError("app", text, "%w", err)
		}
	}
	for _, zone := range q.Without {
		if err := s.loseZone(zone); err != nil {
			return nil, fieldError("without", zone, "%w", err)
		}
	}
	for _, text := range q.Nodes {
		name, n, sign, err := change("nodes", text)
		if err != nil {
			return nil, err
		}
		if err := s.changeType(name, n, sign); err != nil {
			return nil, fieldError("nodes", text, "%w", err)
		}
	}
	if len(s.t.Instance.Machines) == 0 {
		return nil, errors.New("no machine is left")
	}
	if total := sum(s.items()); total > most {
		return nil, fmt.Errorf("the trace would have %d items, more than %d", total, most)
	}
	return s, nil
}

// more apportions a growth of all items by percent over the apps: each app grows by the whole part of its own share, and
// those with the largest remainder by one more, up to the total growth, rounded and at least one.
func more(items []int64, percent float64) []int64 {
	out := make([]int64, len(items))
	rest := make([]float64, len(items))
	order := make([]int, len(items))
	left := max(1, int64(math.Round(float64(sum(items))*percent/100)))
	for a, n := range items {
		own := float64(n) * percent / 100
		out[a] = int64(own + 1e-9)
		left -= out[a]
		rest[a], order[a] = own-float64(out[a]), a
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, a := range order[:min(int64(len(order)), max(0, left))] {
		out[a]++
	}
	return out
}

// list returns some of the existing names.
func list(what string, names []string) string {
	const shown = 10
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return "the trace has no " + what
	}
	more := ""
	if n := len(names) - shown; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "there are " + strings.Join(names[:min(len(names), shown)], ", ") + more
}

func (s *site) changeApp(name string, n int) error {
	a, err := s.appNamed(name)
	if err != nil {
		return err
	}
	if n > 0 {
		s.arrive(int32(a), int64(n))
		return nil
	}
	if has := s.items()[a]; has < int64(-n) {
		return fmt.Errorf("app %q has %s", s.t.Instance.Apps[a].Name, plural.Of(int(has), "item"))
	}
	s.leave(int32(a), int32(-n))
	return nil
}

// appNamed finds an app by its name, or, in a snapshot, by namespace/name of the controller: shop/cart is
// shop/Deployment/cart@cpu=500m, if no other app is.
func (s *site) appNamed(name string) (int, error) {
	var all, same, near []string
	at := -1
	for a, app := range s.t.Instance.Apps {
		if app.Name == name {
			return a, nil
		}
		of, _, _ := strings.Cut(app.Name, "@")
		parts := strings.Split(of, "/")
		last := parts[len(parts)-1]
		if all = append(all, app.Name); of == name || len(parts) == 3 && (name == parts[0]+"/"+last || name == last) {
			at, same = a, append(same, app.Name)
		}
		if strings.Contains(app.Name, name[strings.LastIndex(name, "/")+1:]) {
			near = append(near, app.Name)
		}
	}
	switch {
	case len(same) == 1:
		return at, nil
	case len(same) > 1:
		return 0, fmt.Errorf("app %q is one of %d; %s", name, len(same), list("app", same))
	case len(near) > 0:
		return 0, fmt.Errorf("unknown app %q; %s", name, list("app", near))
	}
	return 0, fmt.Errorf("unknown app %q; %s", name, list("app", all))
}

func (s *site) loseZone(zone string) error {
	in := func(m binpack.MachineLine) bool { return m.Zone == zone && zone != "" }
	if !slices.ContainsFunc(s.t.Instance.Machines, in) {
		var names []string
		for _, m := range s.t.Instance.Machines {
			if m.Zone != "" {
				names = append(names, m.Zone)
			}
		}
		return fmt.Errorf("unknown zone %q; %s", zone, list("zone", names))
	}
	for line, m := range slices.Backward(slices.Clone(s.t.Instance.Machines)) {
		if in(m) {
			s.dropLine(int32(line))
		}
	}
	return nil
}

// changeType sets or changes the number of machines of a type. New ones are like the first of the
// type in the zone that has fewest; those with the fewest items are removed first.
func (s *site) changeType(name string, n int, sign bool) error {
	inst := s.t.Instance
	of := slices.Index(inst.Types, name)
	has, lines, unlimited := 0, 0, false
	for _, m := range inst.Machines {
		if int(m.Type) == of {
			lines++
			has, unlimited = has+max(0, m.Count), unlimited || m.Count == binpack.Unlimited
		}
	}
	switch {
	case of < 0 || lines == 0:
		return fmt.Errorf("unknown type %q; %s", name, list("type", slices.DeleteFunc(slices.Clone(inst.Types), func(t string) bool { return t == "" })))
	case unlimited && sign:
		return fmt.Errorf("type %q has no limit: want a number without a sign", name)
	case unlimited:
		return s.limitType(int32(of), n)
	}
	want := n
	if sign {
		want += has
	}
	if want < 0 {
		return fmt.Errorf("type %q has %d machines", name, has)
	}
	for ; has < want; has++ {
		inst.Machines[s.smallestZone(int32(of))].Count++
	}
	for ; has > want; has-- {
		s.loseMachine(s.emptiest(int32(of)))
	}
	return nil
}
