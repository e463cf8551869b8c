// Package swarm minimises a function of real numbers inside a box with a
// particle swarm ([PSO]), and has the two controls that a swarm must be held
// against at the same number of evaluations: random search ([RandomSearch])
// and covariance matrix adaptation ([CMAES]).
//
// Every particle has a position x, a velocity v and a personal best. One step:
//
//	v ← w·v + c1·ξ1·(personal best − x) + c2·ξ2·(global best − x)
//	x ← Φ(x + v)
//
// ξ1 and ξ2 are drawn from [0, 1] for each dimension. Φ ([Box.Reflect]) reflects a
// particle that leaves the box at its wall and turns that component of the
// velocity. With a ring neighbourhood the global best is replaced by the best of
// the particle and its two neighbours.
//
// With several objectives [MOPSO] takes the place of [PSO], and an [Archive]
// keeps the non-dominated points of any optimiser; [Archive.Hypervolume] compares
// two archives.
//
// All optimisers are an [Optimizer]: they hand out a generation of positions and
// take its values. [Minimize] runs one until the budget, convergence or an
// interrupt ends it. A generation may be evaluated by any number of workers, here
// ([Parallel]) or elsewhere: the next step of an optimiser depends on the values
// alone, never on the order of their arrival, and every particle has a random
// stream of its own, so the same seed gives the same bytes. A [Checkpoint] records
// each evaluation; a resumed run is the same seeded run again, answered from that
// record until it is used up.
//
// The package attaches no meaning to its numbers and uses no clock.
//
// # Sources
//
//   - J. Kennedy, R. Eberhart, Particle swarm optimization, ICNN 1995: the swarm,
//     personal and global best.
//   - Y. Shi, R. Eberhart, A modified particle swarm optimizer, CEC 1998: the
//     inertia weight w. (The constriction factor of M. Clerc and J. Kennedy, 2002,
//     is another way to damp the swarm and is not used: a run uses one of them.)
//   - N. Hansen, The CMA evolution strategy: a tutorial, arXiv:1604.00772, 2016.
//   - N. Hansen, Injecting external solutions into CMA-ES, arXiv:1110.4181, 2011:
//     how CMA-ES takes given starting positions.
//   - Q. Zhang, H. Li, MOEA/D: a multiobjective evolutionary algorithm based on
//     decomposition, IEEE TEC 11 (2007): a weight vector for each member.
//   - S. Zapotecas Martínez, C. Coello Coello, A multi-objective particle swarm
//     optimizer based on decomposition, GECCO 2011.
//   - E. Zitzler, L. Thiele, Multiobjective evolutionary algorithms, IEEE TEC 3
//     (1999): the hypervolume.
package swarm
