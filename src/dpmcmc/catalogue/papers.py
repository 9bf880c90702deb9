"""The papers that samplers of the catalogue come from, in BibTeX; a record may bring its own."""

RAISA2021HMC = r"""@misc{raisa2021hmc,
  author = {R{\"a}is{\"a}, Ossi and Koskela, Antti and Honkela, Antti},
  title  = {Differentially Private {H}amiltonian {M}onte {C}arlo},
  year   = {2021},
  eprint = {2106.09376},
  archiveprefix = {arXiv}
}"""

RAISA2021THESIS = r"""@mastersthesis{raisa2021thesis,
  author = {R{\"a}is{\"a}, Ossi},
  title  = {Differentially Private {M}arkov Chain {M}onte {C}arlo},
  school = {University of Helsinki},
  year   = {2021}
}"""

YILDIRIM2019 = r"""@article{yildirim2019,
  author  = {Y{\i}ld{\i}r{\i}m, Sinan and Ermi{\c{s}}, Beyza},
  title   = {Exact {MCMC} with differentially private moves: Revisiting the penalty algorithm
             in a data privacy framework},
  journal = {Statistics and Computing},
  volume  = {29},
  pages   = {947--963},
  year    = {2019}
}"""

CEPERLEY1999 = r"""@article{ceperley1999,
  author  = {Ceperley, David M. and Dewing, Mark},
  title   = {The penalty method for random walks with uncertain energies},
  journal = {The Journal of Chemical Physics},
  volume  = {110},
  pages   = {9812--9820},
  year    = {1999}
}"""

GUSTAFSON1998 = r"""@article{gustafson1998,
  author  = {Gustafson, Paul},
  title   = {A guided walk {M}etropolis algorithm},
  journal = {Statistics and Computing},
  volume  = {8},
  pages   = {357--364},
  year    = {1998}
}"""

HEIKKILA2019 = r"""@inproceedings{heikkila2019,
  author    = {Heikkil{\"a}, Mikko A. and J{\"a}lk{\"o}, Joonas and Dikmen, Onur and Honkela, Antti},
  title     = {Differentially Private {M}arkov Chain {M}onte {C}arlo},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019}
}"""

WANG2015 = r"""@inproceedings{wang2015,
  author    = {Wang, Yu-Xiang and Fienberg, Stephen E. and Smola, Alexander J.},
  title     = {Privacy for Free: Posterior Sampling and Stochastic Gradient {M}onte {C}arlo},
  booktitle = {International Conference on Machine Learning},
  year      = {2015}
}"""

LI2019 = r"""@inproceedings{li2019,
  author    = {Li, Bai and Chen, Changyou and Liu, Hao and Carin, Lawrence},
  title     = {On Connecting Stochastic Gradient {MCMC} and Differential Privacy},
  booktitle = {International Conference on Artificial Intelligence and Statistics},
  year      = {2019}
}"""

CHEN2014 = r"""@inproceedings{chen2014,
  author    = {Chen, Tianqi and Fox, Emily B. and Guestrin, Carlos},
  title     = {Stochastic Gradient {H}amiltonian {M}onte {C}arlo},
  booktitle = {International Conference on Machine Learning},
  year      = {2014}
}"""

GIROLAMI2011 = r"""@article{girolami2011,
  author  = {Girolami, Mark and Calderhead, Ben},
  title   = {Riemann manifold {L}angevin and {H}amiltonian {M}onte {C}arlo methods},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {73},
  pages   = {123--214},
  year    = {2011}
}"""

XIFARA2014 = r"""@article{xifara2014,
  author  = {Xifara, Tatiana and Sherlock, Chris and Livingstone, Samuel and Byrne, Simon and Girolami, Mark},
  title   = {{L}angevin diffusions and the {M}etropolis-adjusted {L}angevin algorithm},
  journal = {Statistics and Probability Letters},
  volume  = {91},
  pages   = {14--19},
  year    = {2014}
}"""

BUSSI2007 = r"""@article{bussi2007,
  author  = {Bussi, Giovanni and Parrinello, Michele},
  title   = {Accurate sampling using {L}angevin dynamics},
  journal = {Physical Review E},
  volume  = {75},
  pages   = {056707},
  year    = {2007}
}"""

CHRISTEN2005 = r"""@article{christen2005,
  author  = {Christen, J. Andr{\'e}s and Fox, Colin},
  title   = {{M}arkov chain {M}onte {C}arlo Using an Approximation},
  journal = {Journal of Computational and Graphical Statistics},
  volume  = {14},
  pages   = {795--810},
  year    = {2005}
}"""

BARDENET2017 = r"""@article{bardenet2017,
  author  = {Bardenet, R{\'e}mi and Doucet, Arnaud and Holmes, Chris},
  title   = {On {M}arkov chain {M}onte {C}arlo methods for tall data},
  journal = {Journal of Machine Learning Research},
  volume  = {18},
  pages   = {1--43},
  year    = {2017}
}"""

DING2014 = r"""@inproceedings{ding2014,
  author    = {Ding, Nan and Fang, Youhan and Babbush, Ryan and Chen, Changyou and Skeel, Robert D. and Neven, Hartmut},
  title     = {Bayesian Sampling Using Stochastic Gradient Thermostats},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {27},
  year      = {2014}
}"""
