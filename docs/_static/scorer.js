// How the search of the site ranks pages: first those that explain, then those that list.
// A page whose title has the word comes before pages whose text has it.
const PLACES = [
  [/^(what|where|when|how|watermarks|four_questions|io|joins|runners|testing|state|glossary)$/, 10],
  [/^(getting_started|tutorial|production|watching|upgrade|exactly_once|computations)$/, 6],
  [/^recipes\//, 8],
  [/^(changelog|contributing|design|departures|readme|flights|faults|speed)$/, -6],
  [/^errors/, -6],
  [/^api\/generated\//, -3],
];

const WORDS = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);

var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const isTitle = !anchor && WORDS.some((word) => title.toLowerCase().includes(word));
    return PLACES.reduce((sum, [place, points]) => (place.test(docname) ? sum + points : sum), score + (isTitle ? 10 : 0));
  },
  objNameMatch: 24,
  objPartialMatch: 4,
  objPrio: { 0: 8, 1: 4, 2: -5 },
  objPrioDefault: 0,
  title: 24,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
