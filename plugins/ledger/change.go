package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// lists are the infeasible nodes of the last decision on each app since the start, by
// name. A file has a list as a whole or as a change. A list that is written as a change of
// another app's list replaces that list.
type lists struct {
	byApp map[string][]string
	names int    // in all lists
	last  string // app whose list was set last
}

// mostNames bounds the memory of a writer: a cluster of 5,000 nodes has lists of at
// most 200 apps. A writer may write any list whole.
const mostNames = 1 << 20

// follow updates the lists by an event.
func (l *lists) follow(e *Event) {
	switch {
	case e.Kind == KindStart:
		*l = lists{}
	case e.Kind == KindForget && e.App != "":
		l.set(e.App, nil)
	case e.Kind == KindDecide && e.Decision != nil:
		l.set(e.App, byName(e.Infeasible))
	}
}

func byName(list []string) []string {
	if slices.IsSorted(list) {
		return list
	}
	return slices.Sorted(slices.Values(list))
}

func (l *lists) set(app string, list []string) {
	l.names += len(list) - len(l.byApp[app])
	if len(list) == 0 {
		delete(l.byApp, app)
		return
	}
	if l.byApp == nil {
		l.byApp = map[string][]string{}
	}
	l.byApp[app], l.last = list, app
}

const (
	// shortLists are written whole, for readers that have no earlier list.
	shortLists = 16
	// muchShorter is the factor by which the change of another app's list must be shorter.
	muchShorter = 8
)

// shorten returns the event as a file stores it: with the change of a list, where that is
// shorter.
func (l *lists) shorten(e *Event) *Event {
	if e.Kind != KindDecide || e.Decision == nil {
		l.follow(e)
		return e
	}
	list, app := byName(e.Infeasible), e.App
	c := l.shortest(app, list)
	if c != nil && c.Of != "" {
		app = c.Of
	}
	if l.set(app, list); l.names > mostNames {
		*l = lists{}
	}
	if c == nil {
		return e
	}
	short, decision := *e, *e.Decision
	decision.Infeasible, decision.InfeasibleChange = nil, c
	short.Decision = &decision
	return &short
}

// shortest returns the change that gives an app's list; nil if the list itself is shorter. The list
// of a new app is a change of the last one: where each pod has an app of its own, no list is
// written whole.
func (l *lists) shortest(app string, list []string) *Change {
	of, least := "", 1
	if len(l.byApp[app]) == 0 {
		app, of, least = l.last, l.last, muchShorter
	}
	before := l.byApp[app]
	if len(before) == 0 || len(list) < shortLists {
		return nil
	}
	c := changeOf(before, list)
	if least*(len(c.Added)+len(c.Removed)) >= len(list) {
		return nil
	}
	c.Of = of
	return c
}

// complete restores the whole list of a decision from a file.
func (l *lists) complete(e *Event) error {
	if e.Decision == nil || e.InfeasibleChange == nil {
		l.follow(e)
		return nil
	}
	if len(e.Infeasible) > 0 {
		return errors.New("infeasible and infeasibleChange are both there")
	}
	app := cmp.Or(e.InfeasibleChange.Of, e.App)
	if app != e.App && len(l.byApp[app]) == 0 {
		return fmt.Errorf("infeasibleChange.of %q: there is no list of it", app)
	}
	list, err := e.InfeasibleChange.applied(l.byApp[app])
	if err != nil {
		return fmt.Errorf("infeasibleChange: %w in the list of app %q", err, app)
	}
	e.Infeasible, e.InfeasibleChange = list, nil
	l.set(app, list)
	return nil
}

// changeOf returns the difference of two sorted lists.
func changeOf(before, now []string) *Change {
	c := &Change{}
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(before) == 0 || len(now) > 0 && now[0] < before[0]:
			c.Added, now = append(c.Added, now[0]), now[1:]
		case len(now) == 0 || before[0] < now[0]:
			c.Removed, before = append(c.Removed, before[0]), before[1:]
		default:
			before, now = before[1:], now[1:]
		}
	}
	return c
}

// applied returns a sorted list after the change.
func (c *Change) applied(before []string) ([]string, error) {
	for _, name := range c.Removed {
		if _, ok := slices.BinarySearch(before, name); !ok {
			return nil, fmt.Errorf("removed %s is not", name)
		}
	}
	for _, name := range c.Added {
		if _, ok := slices.BinarySearch(before, name); ok {
			return nil, fmt.Errorf("added %s is already", name)
		}
	}
	gone := byName(c.Removed)
	var now []string
	for _, name := range before {
		if _, ok := slices.BinarySearch(gone, name); !ok {
			now = append(now, name)
		}
	}
	now = append(now, c.Added...)
	slices.Sort(now)
	return now, nil
}
