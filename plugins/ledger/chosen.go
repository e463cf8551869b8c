package ledger

import (
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// FileChoice returns the event with the file to which the policy of a role leaves its next decision;
// nil if the log has it already, or the policy does not choose.
func (l *Ledger) FileChoice(role Role) *Event {
	c := l.choice(role)
	if c == nil || sameChoice(c, l.policies[role].chosen) {
		return nil
	}
	return &Event{Kind: KindChoose, Role: role, Chosen: c}
}

// Knowledge returns the level of knowledge on which a role decides now: that of the file that its
// policy has chosen, else that of the policy.
func (l *Ledger) Knowledge(role Role) binpack.Knowledge {
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

// ChosenFile returns the name of the file to which the policy of a role leaves its decisions; "" if no
// file is chosen yet, or the policy does not choose.
func (l *Ledger) ChosenFile(role Role) string {
	if p, ok := l.policies[role]; ok && p.chosen != nil {
		return p.chosen.Name
	}
	return ""
}

func sameChoice(a, b *FileChoice) bool { return b != nil && a.Name == b.Name && a.Digest == b.Digest }

// choice returns the file that the policy of a role chooses in the present state; nil if it does not choose.
func (l *Ledger) choice(role Role) *FileChoice {
	p, ok := l.policies[role]
	if !ok || p.object.Spec.Model != policy.ShippedModel {
		return nil
	}
	l.Columns()
	choice, ok := binpack.ChoiceOf(l.scorer(p))
	if !ok {
		return p.chosen // of another version's files: the log has its choice
	}
	return &FileChoice{Name: choice.Name, Digest: choice.Digest, By: p.digest, Policy: policy.ShippedChoice(choice)}
}

// setChosen stores the choice of a policy. If the log was written with other shipped files than this
// build has, the log alone determines which one decides.
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

// checkChoice compares the logged choice of a policy with its choice here.
func (l *Ledger) checkChoice(role Role, logged *FileChoice) (computed string, ok bool) {
	c := l.choice(role)
	switch {
	case c == nil:
		return "", true
	case l.policies[role].foreign && logged != nil: // the log alone determines it
		return c.Name, true
	case logged == nil:
		return c.Name, false
	}
	return c.Name, c.By != logged.By || sameChoice(c, logged)
}
