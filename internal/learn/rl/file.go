package rl

import (
	"encoding/base64"
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

const format = "sigma-ddpg-training"

// A training is an agent in a file. Slices of numbers are text, by nn.EncodeFloats.
type training struct {
	Config  Config         `json:"config"`
	Seen    int            `json:"seen"`
	Updates int            `json:"updates"`
	Random  string         `json:"random"` // the stream, by rand.PCG, in base64
	Noise   string         `json:"noise"`
	Actor   learnerState   `json:"actor"`
	Critics []learnerState `json:"critics"`
	Replay  batchState     `json:"replay"`
	Oldest  int            `json:"oldest"`
	Window  batchState     `json:"window"`
}

type learnerState struct {
	Network string       `json:"network"`
	Target  string       `json:"target"`
	Adam    nn.AdamState `json:"adam"`
}

type batchState struct {
	Rows         int    `json:"rows"`
	Both         string `json:"both"` // states and actions
	Next         string `json:"next"`
	Reward       string `json:"reward"`
	Discount     string `json:"discount"`
	Demonstrated []int  `json:"demonstrated"` // rows
}

// Encode returns the whole training as a file. It refuses a training that has diverged.
func (d *DDPG) Encode() ([]byte, error) {
	random, err := d.source.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("rl: random stream: %w", err)
	}
	s := training{
		Config: d.config, Seen: d.seen, Updates: d.updates, Random: base64.StdEncoding.EncodeToString(random), Noise: nn.EncodeFloats(d.noise),
		Actor: d.actor.state(), Replay: d.buffer.rows.firstRows(d.buffer.size), Oldest: d.buffer.oldest, Window: d.buffer.window.firstRows(d.buffer.waiting),
	}
	for _, c := range d.critics {
		s.Critics = append(s.Critics, c.state())
	}
	if _, err := s.agent(); err != nil {
		return nil, fmt.Errorf("rl: %w", err)
	}
	return nn.Seal(format, s)
}

// Decode reads the output of [DDPG.Encode]. Errors begin with the file's name and name the
// field.
func Decode(name string, data []byte) (*DDPG, error) {
	var s training
	if err := nn.Unseal(name, data, format, &s); err != nil {
		return nil, err
	}
	d, err := s.agent()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// agent makes the agent that s describes.
func (s training) agent() (*DDPG, error) {
	if err := s.Config.Check(); err != nil {
		return nil, fmt.Errorf("config.%w", err)
	}
	d, err := New(s.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if s.Seen < 0 || s.Updates < 0 {
		return nil, fmt.Errorf("seen and updates: %d and %d, want 0 or more", s.Seen, s.Updates)
	}
	d.seen, d.updates = s.Seen, s.Updates
	random, err := base64.StdEncoding.DecodeString(s.Random)
	if err == nil {
		err = d.source.UnmarshalBinary(random)
	}
	if err != nil {
		return nil, fmt.Errorf("random: %w", err)
	}
	if d.noise, err = nn.DecodeFloats[float64](s.Noise, s.Config.Action); err != nil {
		return nil, fmt.Errorf("noise: %w", err)
	}
	if err := d.actor.restore(s.Actor); err != nil {
		return nil, fmt.Errorf("actor.%w", err)
	}
	if len(s.Critics) != len(d.critics) {
		return nil, fmt.Errorf("critics: %d, want %d", len(s.Critics), len(d.critics))
	}
	for i, c := range d.critics {
		if err := c.restore(s.Critics[i]); err != nil {
			return nil, fmt.Errorf("critics[%d].%w", i, err)
		}
	}
	b := d.buffer
	if err := b.rows.restore(s.Replay, s.Config.Capacity); err != nil {
		return nil, fmt.Errorf("replay.%w", err)
	}
	// A window with all its rows would have given one to the replay buffer.
	if err := b.window.restore(s.Window, s.Config.Steps-1); err != nil {
		return nil, fmt.Errorf("window.%w", err)
	}
	b.size, b.waiting, b.oldest = s.Replay.Rows, s.Window.Rows, s.Oldest
	if b.oldest != 0 && (b.oldest < 0 || b.oldest >= b.size || b.size < s.Config.Capacity) {
		return nil, fmt.Errorf("oldest: %d of %d rows with room for %d", b.oldest, b.size, s.Config.Capacity)
	}
	return d, nil
}

func (l *learner) state() learnerState {
	return learnerState{Network: nn.EncodeFloats(l.net.Params()), Target: nn.EncodeFloats(l.target.Params()), Adam: l.adam.State()}
}

func (l *learner) restore(s learnerState) error {
	if err := restore("network", s.Network, l.net.Params()); err != nil {
		return err
	}
	if err := restore("target", s.Target, l.target.Params()); err != nil {
		return err
	}
	if err := l.adam.Restore(s.Adam); err != nil {
		return fmt.Errorf("adam.%w", err)
	}
	return nil
}

// restore fills out with the numbers of a field.
func restore(field, text string, out []float32) error {
	v, err := nn.DecodeFloats[float32](text, len(out))
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	copy(out, v)
	return nil
}

// firstRows describes the first rows for a file.
func (b *batch) firstRows(rows int) batchState {
	s := batchState{
		Rows: rows, Both: nn.EncodeFloats(b.both.Data[:rows*b.both.Cols]), Next: nn.EncodeFloats(b.next.Data[:rows*b.next.Cols]),
		Reward: nn.EncodeFloats(b.reward[:rows]), Discount: nn.EncodeFloats(b.discount[:rows]), Demonstrated: []int{},
	}
	for i, is := range b.demonstrated[:rows] {
		if is {
			s.Demonstrated = append(s.Demonstrated, i)
		}
	}
	return s
}

func (b *batch) restore(s batchState, most int) error {
	if s.Rows < 0 || s.Rows > most {
		return fmt.Errorf("rows: %d, want 0 to %d", s.Rows, most)
	}
	for _, column := range []struct {
		name, text string
		out        []float32
	}{
		{"both", s.Both, b.both.Data[:s.Rows*b.both.Cols]},
		{"next", s.Next, b.next.Data[:s.Rows*b.next.Cols]},
		{"reward", s.Reward, b.reward[:s.Rows]},
		{"discount", s.Discount, b.discount[:s.Rows]},
	} {
		if err := restore(column.name, column.text, column.out); err != nil {
			return err
		}
	}
	for i := range s.Rows {
		copy(b.state.Row(i), b.both.Row(i))
	}
	for _, i := range s.Demonstrated {
		if i < 0 || i >= s.Rows {
			return fmt.Errorf("demonstrated: row %d of %d", i, s.Rows)
		}
		b.demonstrated[i] = true
	}
	return nil
}
