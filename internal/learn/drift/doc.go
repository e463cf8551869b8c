// Package drift detects changes of a series of values.
//
// [PageHinkley] watches one series, such as the log of the cpu that a request takes,
// against a reference that it takes from the first values. [Thresholds] is the rule of
// AWARE: mean and deviation of the reward within a window against two thresholds. It
// is here for comparison: an agent that corrects itself hides a change from its reward.
//
// Both take the values one by one, at even intervals; their delays count values. A missing
// value is left out. Their state is kept as JSON, so that a restarted program continues as if
// it had not been restarted. There is no clock and no randomness.
// # Detection rates
//
// The tests measure it, at a value a minute, on the log of a lognormal series with a
// deviation of .055. That is the noise at which the delays of the study behind the
// defaults are reproduced (8 minutes for × 1.2, 4 for × 1.4 and × .7); the study does not
// state it. With independent noise there is no false alarm in 100 weeks; with noise
// that is correlated over time (AR(1), a coefficient of .5 a minute) there is one in two
// weeks. Changes by × 1.2, × 1.4 and × .7 are found within 15 minutes in 97 % of runs.
// With a deviation of .08, × 1.2 is found within 15 minutes in 70 %, the others in 99 %.
//
// The defaults cannot take noise with a longer memory: a coefficient of .6 gives 1.3
// false alarms a week, .7 three, .8 nine. Average over longer intervals there, or take a
// larger δ.
//
// # Sources
//
//   - E. S. Page, Continuous inspection schemes, Biometrika 41, 1954.
//   - D. V. Hinkley, Inference about the change-point from cumulative sum tests,
//     Biometrika 58, 1971.
//   - P. J. Rousseeuw, C. Croux, Alternatives to the median absolute deviation, JASA 88,
//     1993: the median absolute deviation and its factor.
//   - H. Qiu et al., AWARE, USENIX ATC 2023, and its code: the thresholds.
package drift
