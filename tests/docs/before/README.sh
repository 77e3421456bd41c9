cp ~/*.py ~/*.sh ~/carma
cd ~/carma
