package rl

import (
	"math"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

// The peer is DDPG as a textbook has it: plain loops in float64, one sample after the
// other. It is what an update is checked against and measured beside.
type peer struct {
	config                              Config
	actor, critic, actorOld, criticOld  *plain
	actorMean, actorVar, critMean, crit []float64
	steps                               int
}

// A plain network has the parameters in the order of nn.MLP.
type plain struct {
	sizes  []int
	tanh   bool // at its output
	params []float64
	acts   [][]float64
}

func newPlain(m *nn.MLP[float32]) *plain {
	p := &plain{sizes: m.Shape().Sizes, tanh: m.Shape().Output == nn.Tanh}
	p.set(m.Params())
	return p
}

func (p *plain) set(params []float32) {
	p.params = nil
	for _, v := range params {
		p.params = append(p.params, float64(v))
	}
}

func (p *plain) forward(x []float64) []float64 {
	p.acts = [][]float64{x}
	at := 0
	for l, in := range p.sizes[:len(p.sizes)-1] {
		out := p.sizes[l+1]
		y := make([]float64, out)
		for j := range y {
			y[j] = p.params[at+in*out+j]
			for i := range x {
				y[j] += x[i] * p.params[at+i*out+j]
			}
			if l < len(p.sizes)-2 {
				y[j] = math.Max(0, y[j])
			} else if p.tanh {
				y[j] = math.Tanh(y[j])
			}
		}
		at += (in + 1) * out
		x = y
		p.acts = append(p.acts, y)
	}
	return x
}

// backward adds to grad and returns the gradient by the inputs.
func (p *plain) backward(dy, grad []float64) []float64 {
	at := len(p.params)
	for l := len(p.sizes) - 2; l >= 0; l-- {
		in, out, x, y := p.sizes[l], p.sizes[l+1], p.acts[l], p.acts[l+1]
		at -= (in + 1) * out
		dx := make([]float64, in)
		for j, d := range dy {
			if l < len(p.sizes)-2 && y[j] <= 0 {
				d = 0
			} else if l == len(p.sizes)-2 && p.tanh {
				d *= 1 - y[j]*y[j]
			}
			grad[at+in*out+j] += d
			for i := range x {
				grad[at+i*out+j] += d * x[i]
				dx[i] += d * p.params[at+i*out+j]
			}
		}
		dy = dx
	}
	return dy
}

func newPeer(d *DDPG) *peer {
	a, c := len(d.actor.net.Params()), len(d.critics[0].net.Params())
	return &peer{
		config: d.config, actor: newPlain(d.actor.net), actorOld: newPlain(d.actor.target), critic: newPlain(d.critics[0].net), criticOld: newPlain(d.critics[0].target),
		actorMean: make([]float64, a), actorVar: make([]float64, a), critMean: make([]float64, c), crit: make([]float64, c),
	}
}

func widen(v []float32) (out []float64) {
	for _, x := range v {
		out = append(out, float64(x))
	}
	return out
}

func adam(params, grad, mean, variance []float64, rate float64, t int) {
	for i, g := range grad {
		mean[i] = .9*mean[i] + .1*g
		variance[i] = .999*variance[i] + .001*g*g
		m, v := mean[i]/(1-math.Pow(.9, float64(t))), variance[i]/(1-math.Pow(.999, float64(t)))
		params[i] -= rate * m / (math.Sqrt(v) + 1e-8)
	}
}

// update learns from the batch.
func (p *peer) update(b *batch) {
	p.steps++
	n := float64(len(b.reward))
	grad := make([]float64, len(p.critic.params))
	for i, r := range b.reward {
		next := widen(b.next.Row(i))
		q := p.criticOld.forward(append(next, p.actorOld.forward(next)...))[0]
		y := float64(r) + float64(b.discount[i])*q
		p.critic.backward([]float64{2 * (p.critic.forward(widen(b.both.Row(i)))[0] - y) / n}, grad)
	}
	adam(p.critic.params, grad, p.critMean, p.crit, p.config.CriticRate, p.steps)
	grad, unused := make([]float64, len(p.actor.params)), make([]float64, len(p.critic.params))
	for i := range b.reward {
		s := widen(b.state.Row(i))
		a := p.actor.forward(s)
		p.critic.forward(append(s, a...))
		down := p.critic.backward([]float64{-1 / n}, unused)[len(s):]
		if b.demonstrated[i] {
			for j, want := range b.both.Row(i)[len(s):] {
				down[j] += 2 * p.config.Imitation / n * (a[j] - float64(want))
			}
		}
		p.actor.backward(down, grad)
	}
	adam(p.actor.params, grad, p.actorMean, p.actorVar, p.config.ActorRate, p.steps)
	for _, pair := range [][2]*plain{{p.actorOld, p.actor}, {p.criticOld, p.critic}} {
		for i, v := range pair[1].params {
			pair[0].params[i] = (1-p.config.Tau)*pair[0].params[i] + p.config.Tau*v
		}
	}
}
