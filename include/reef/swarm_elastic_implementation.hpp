#pragma once

/// \file
/// The bodies of reef/swarm/elastic/, for one file of a program that links reef::swarm_elastic, beside
/// implementation.hpp and swarm_implementation.hpp.

#ifndef REEF_COMPILED
#error "reef/swarm_elastic_implementation.hpp: this file is compiled without -DREEF_COMPILED, which says that bodies \
are elsewhere. fix: that flag for every file of the program, this one too; or, without this header, for none."
#else

#include <reef/swarm/elastic/detail/averaged_step.ipp>
#include <reef/swarm/elastic/detail/local_rounds.ipp>
#include <reef/swarm/elastic/detail/rounds.ipp>
#include <reef/swarm/elastic/local_round.ipp>
#include <reef/swarm/elastic/peer_exchange.ipp>
#include <reef/swarm/elastic/replay_exchange.ipp>
#include <reef/swarm/elastic/state_pieces.ipp>

#endif
