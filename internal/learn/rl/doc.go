// Package rl learns to act by reinforcement: [DDPG], an actor-critic for actions that
// are real numbers, and its replay buffer. Options make it TD3 ([Config.Twin]), give it
// n-step returns ([Config.Steps]) and let it imitate ([Config.Imitation]). [Reinforce] is the
// plain policy gradient, without a critic.
//
//	agent, err := rl.New(rl.AWARE(10, 3, seed))
//	for each episode, for each step:
//		agent.Explore(state, action)             // −1 to 1 in each dimension
//		err := agent.Observe(rl.Transition{…})   // the result
//		losses, err := agent.Update()            // one batch
//
// States should be of the order of 1: they are not scaled here. Rewards are per step.
//
// An episode ends in a state from which nothing follows ([Terminal]), or because the
// time is over ([TimeLimit]). The second is no property of the state: its value still
// counts (Pardo et al. 2018).
//
// [DDPG.Encode] writes everything: networks, their optimisers, the buffer, the noise
// and the random stream. A training that is cut there and continues from the file gives
// the same bytes as an uninterrupted one. After the first update, an update allocates nothing.
//
// The package is independent of the meaning of states and actions, and of any clock.
//
// # Sources
//
//   - T. P. Lillicrap et al., Continuous control with deep reinforcement learning,
//     ICLR 2016: DDPG (algorithm 1) and its noise.
//   - S. Fujimoto, H. van Hoof, D. Meger, Addressing function approximation error in
//     actor-critic methods, ICML 2018: TD3.
//   - A. Nair et al., Overcoming exploration in reinforcement learning with
//     demonstrations, ICRA 2018: the imitation term (equation 3).
//   - R. J. Williams, Simple statistical gradient-following algorithms for connectionist
//     reinforcement learning, Machine Learning 8, 1992: REINFORCE.
//   - R. S. Sutton, Learning to predict by the methods of temporal differences, Machine
//     Learning 3, 1988: n-step returns.
//   - F. Pardo et al., Time limits in reinforcement learning, ICML 2018.
//   - H. Qiu et al., AWARE, USENIX ATC 2023, and H. Qiu et al., FIRM, OSDI 2020: the
//     numbers of [AWARE], as in the code that both published.
package rl
