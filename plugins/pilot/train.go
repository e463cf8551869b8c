package pilot

import (
	"slices"
	"time"
)

const day = 24 * time.Hour

// listen takes drift into account: it may give a reason to train before the schedule does.
func (p *step) listen() {
	d := p.e.Drift
	if d == nil || p.s.Alarm != "" || !d.At.After(p.s.Trained) {
		return
	}
	idle := p.s.Phase == Watching || p.s.Phase == AwaitingApproval // else another policy is on its way
	switch {
	case d.Changed != "" && d.Since.After(p.s.Changed):
		p.s.Alarm, p.s.Changed, p.s.Workload = d.Changed, d.Since, d.Since.Truncate(day)
		p.tell("the workload changed: %s", d.Changed)
	case idle && d.Regret != nil && p.settings.Guard.RegretPercent != nil && d.Regret.Mean > *p.settings.Guard.RegretPercent && d.Regret.Low > 0:
		p.s.Alarm = "regret"
		// They were chosen since they look bad for the active policy: they must not judge any other.
		p.burn(d.Days)
		p.tell("a policy retrained on the last week would have saved %.1f %% (at least %.1f)", d.Regret.Mean, d.Regret.Low)
	default:
		return
	}
	if p.s.Phase == AwaitingApproval {
		p.rest()
	}
}

// kept bounds the digests of a state. No record has more days than that: History is at most 366, and
// only its newest days judge, so a day used that many days ago never judges again.
const kept = 512

func (p *step) burn(days []string) { p.s.Burnt = with(p.s.Burnt, days...) }

// with is a list with further digests, less the oldest.
func with(list []string, more ...string) []string {
	for _, d := range more {
		if !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return slices.Clone(list[max(0, len(list)-kept):])
}

// due reports whether it is time to train, and why.
func (p *step) due() (why string, ok bool) {
	if p.s.Alarm != "" {
		return p.s.Alarm, true
	}
	since := p.s.Trained
	if since.IsZero() {
		since = p.s.Begun
	}
	return "the schedule", !p.schedule.Next(since).After(p.now)
}

// maybeTrain begins a training if it is time to and enough days are recorded.
func (p *step) maybeTrain() {
	why, ok := p.due()
	if !ok {
		since := p.s.Trained
		if since.IsZero() {
			since = p.s.Begun
		}
		p.because("the next training is due at %s", p.schedule.Next(since).Format(time.RFC3339))
		return
	}
	days, ok := p.usable()
	if !ok {
		return
	}
	test := len(days) - p.settings.Test
	p.s.Job = "train-" + p.now.Format("20060102-150405")
	p.s.From, p.s.Until, p.s.Days = days[0].Start, days[test].Start, nil
	for _, d := range days[test:] {
		p.s.Days = append(p.s.Days, d.Digest)
	}
	p.s.Trained, p.s.Alarm = p.now, ""
	p.enter(Training)
	p.because("%d days to learn from and %d to judge (%s)", test, p.settings.Test, why)
}

// usable are the newest days in a row without a gap, the last of them not looked at: enough to
// train, to choose and to judge.
func (p *step) usable() ([]Day, bool) {
	if p.e.Recorded == nil {
		p.because("what is recorded is not known")
		return nil, false
	}
	all := p.e.Recorded.Days
	at := len(all)
	for at > 0 && len(all)-at < p.settings.History {
		d := &all[at-1]
		if d.Gap != "" || d.Start.Before(p.s.Workload) || at < len(all) && !d.Start.Add(day).Equal(all[at].Start) {
			break
		}
		at--
	}
	if at > 0 && all[at-1].Gap != "" {
		p.because("the day %s is not whole: %s", all[at-1].Start.Format(time.DateOnly), all[at-1].Gap)
	}
	days := all[at:]
	if least := p.settings.Choose + p.settings.Test + 1; len(days) < least {
		p.because("%d days in a row are recorded of this workload, want %d", len(days), least)
		return nil, false
	}
	for _, d := range days[len(days)-p.settings.Test:] {
		if slices.Contains(p.s.Burnt, d.Digest) {
			p.because("the day %s was looked at before: %d new days are needed to judge", d.Start.Format(time.DateOnly), p.settings.Test)
			return nil, false
		}
	}
	return days, true
}

// training waits for the end of a training.
func (p *step) training() {
	t := p.e.Trained
	switch {
	case t == nil || t.Job != p.s.Job:
		if lasted := p.now.Sub(p.s.Since); lasted > p.settings.TrainWithin {
			p.tell("%s did not end within %v", p.s.Job, p.settings.TrainWithin)
			p.rest()
			return
		}
		p.because("%s has not ended", p.s.Job)
	case t.Failed != "":
		p.tell("%s failed: %s", p.s.Job, t.Failed)
		p.rest()
	case t.Candidate == "":
		p.tell("%s found no candidate: %s", p.s.Job, t.None)
		p.rest()
	case t.Candidate == p.s.InForce:
		p.tell("%s found none better than the policy in force", p.s.Job)
		p.rest()
	case slices.Contains(p.s.Refused, t.Candidate):
		p.tell("%s found %s, which was rolled back before", p.s.Job, short(t.Candidate))
		p.rest()
	default:
		p.s.Candidate = t.Candidate
		p.burn(p.s.Days) // before anybody looks: a judgement that is killed does not look twice
		p.enter(Judging)
		p.because("%s is judged on %d days", short(t.Candidate), len(p.s.Days))
	}
}
