package ledger

import (
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// Choose returns the event that says what the policy of a role leaves its next decision to;
// nil where the log says so already, or the policy does not choose.
func (l *Ledger) Choose(role Role) *Event {
	c := l.choice(role)
	if c == nil || sameChoice(c, l.policies[role].chosen) {
		return nil
	}
	return &Event{Kind: KindChoose, Role: role, Chosen: c}
}

// Decides is the level of knowledge of what decides for a role now: of the file that its
// policy has chosen, else of the policy.
func (l *Ledger) Decides(role Role) binpack.Knowledge {
	p, ok := l.policies[role]
	if !ok {
		return binpack.K0
	}
	if p.chosen != nil && p.chosen.Policy != nil {
		know, _ := binpack.ParseKnowledge(p.chosen.Policy.Spec.Knowledge)
		return know
	}
	return p.policy.Knowledge()
}

// Chosen is the name of the file that the policy of a role leaves its decisions to; "" = none
// yet, or the policy does not choose.
func (l *Ledger) Chosen(role Role) string {
	if p, ok := l.policies[role]; ok && p.chosen != nil {
		return p.chosen.Name
	}
	return ""
}

func sameChoice(a, b *Chosen) bool { return b != nil && a.Name == b.Name && a.Digest == b.Digest }

// choice is what the policy of a role chooses in the present state; nil = it does not choose.
func (l *Ledger) choice(role Role) *Chosen {
	p, ok := l.policies[role]
	if !ok || p.object.Spec.Model != policy.ShippedModel {
		return nil
	}
	l.Columns()
	choice, ok := binpack.ChoiceOf(l.scorer(p))
	if !ok {
		return p.chosen // of another version's files: the log says what it chose
	}
	object, emptyLast := policy.ShippedChoice(choice)
	return &Chosen{Name: choice.Name, Digest: choice.Digest, By: p.digest, EmptyLast: emptyLast, Policy: object}
}

// setChosen notes what a policy chose. Where other files are shipped than here, the log alone
// says which one decides.
func (l *Ledger) setChosen(e *Event) error {
	p, ok := l.policies[e.Role]
	switch {
	case !ok || p.object.Spec.Model != policy.ShippedModel:
		return fmt.Errorf("role %q: it has no policy that chooses", e.Role)
	case e.Chosen == nil || e.Chosen.Policy == nil:
		return errors.New("chosen or chosen.policy is missing")
	}
	if c := e.Chosen; c.By != p.digest || p.foreign {
		decides, err := c.Policy.Chosen(c.EmptyLast)
		if err != nil {
			return fmt.Errorf("chosen.policy: %w", err)
		}
		p.digest, p.policy, p.foreign = c.By, decides, true
		delete(l.scorers, p)
	}
	p.chosen = e.Chosen
	return nil
}

// checkChoice compares what the log says that a policy chose with what it chooses here.
func (l *Ledger) checkChoice(role Role, logged *Chosen) (computed string, ok bool) {
	c := l.choice(role)
	switch {
	case c == nil:
		return "", true
	case logged == nil:
		return c.Name, false
	}
	return c.Name, c.By != logged.By || sameChoice(c, logged)
}
